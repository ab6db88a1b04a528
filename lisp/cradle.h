/*
 * cradle.h - how the zygote learns of a worker that it has not forked itself.
 *
 * A clone is an orphan from the beginning, and so the zygote's child. Before it does anything that others can see it
 * announces itself by one datagram: whose process it is, the memory that it will share with its copies, and a line to
 * talk on. The zygote agrees or says why not, and from then on has it on its list as one that starts. On the line the
 * clone says that it listens, as every worker does.
 *
 * User code can announce a process too. It must be one of its own making, and it wins nothing by that: it could as well
 * put a socket under that name into the directory.
 */
#ifndef CRADLE_H
#define CRADLE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "lineage.h"
#include "worklink.h"

struct newborn {
	char session[WORKLINK_SESSION_ID_LENGTH + 1];
	pid_t pid; /* as the kernel says */
	struct lineage *lineage;
	int line; /* it becomes readable when the clone listens, or is gone */
};

/* In the zygote. The descriptor or a negative errno. */
int cradle_open(const char *directory) __attribute__((warn_unused_result));
/* The next one that announces itself and makes sense; false if there is none. */
bool cradle_receive(int cradle, struct newborn *newborn) __attribute__((warn_unused_result));
void cradle_agree(const struct newborn *newborn);
/* Lets go of all that has come with it. */
void cradle_refuse(const struct newborn *newborn, const char *why);

/*
 * In the clone: announces it, and waits until the zygote agrees. Returns the line, or -1 with the reason in why.
 * lineage is the descriptor of lineage_create.
 */
int cradle_announce(const char *directory, const char *session, int lineage, char *why, size_t size)
	__attribute__((warn_unused_result));

#endif
