/*
 * sessionid.c - drawing ids and telling whether a text is one.
 */
#include "sessionid.h"

#include "alloc.h"

#include <stdint.h>
#include <stdio.h>
#include <sys/random.h>
#include <time.h>

#define NAME_MAX_BYTES 256

bool session_id_valid(const char *id)
{
	static const char pattern[] = "session-########-######-XXXX";

	if (strlen(id) != WORKLINK_SESSION_ID_LENGTH)
		return false;
	for (size_t i = 0; i < WORKLINK_SESSION_ID_LENGTH; i++) {
		bool digit = id[i] >= '0' && id[i] <= '9';
		if (pattern[i] == '#'               ? !digit
				: pattern[i] == 'X' ? !(digit || (id[i] >= 'A' && id[i] <= 'F'))
						    : id[i] != pattern[i])
			return false;
	}
	return true;
}

bool session_name_valid(const char *name)
{
	size_t length = strlen(name);

	if (length > NAME_MAX_BYTES || strncmp(name, "session-", 8) == 0)
		return false;
	for (size_t i = 0; i < length; i++)
		if ((unsigned char)name[i] < ' ' || name[i] == '\x7f')
			return false;
	return true;
}

void session_id_draw(char id[static WORKLINK_SESSION_ID_LENGTH + 1])
{
	time_t now = time(NULL);
	struct tm local;
	uint16_t suffix;

	if (getrandom(&suffix, sizeof(suffix), 0) != sizeof(suffix))
		abort();
	localtime_r(&now, &local);
	size_t used = strftime(id, WORKLINK_SESSION_ID_LENGTH + 1, "session-%Y%m%d-%H%M%S", &local);
	snprintf(id + used, WORKLINK_SESSION_ID_LENGTH + 1 - used, "-%04X", suffix);
}
