/*
 * lineage.c - the shared memory of a session's processes.
 *
 * The living worker is the only writer but for `ended`, and copies read when the worker is dead, so nothing here needs
 * a lock. Which copy inherits is decided by the shelf, and there is never a moment without one in it, because a new
 * copy is put there before an older is let go. Who is the worker is decided by one exchange.
 */
#include "config.h"

#include "lineage.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "process.h"
#include "utf8.h"
#include "worklink.h"

/* Memory that could shrink would let whoever made it kill whoever reads it. */
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

struct recent {
	uint64_t seq;
	uint32_t length;
	bool is_cut;
	bool is_undone;
	bool is_told; /* and clients know that */
	uint8_t code[LINEAGE_CODE_MAX];
};

struct lineage {
	_Atomic uint64_t worker; /* see process.h */
	atomic_bool ended;
	struct shelf shelf;
	uint64_t incarnation;
	uint64_t begun;
	uint64_t answered;  /* or about to be */
	uint64_t forgotten; /* stored by the daemon */
	uint64_t told;      /* what was undone up to this one has been told */
	struct recent recent[LINEAGE_RECENT];
	size_t memo_length;
	uint8_t memo[WORKLINK_MEMO_MAX];
	size_t origin_length;
	uint8_t origin[LINEAGE_ORIGIN_MAX]; /* of the last one begun; touched as far as it is long */
};

struct lineage *lineage_new(void)
{
	void *memory = mmap(NULL, sizeof(struct lineage), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

struct lineage *lineage_open(int fd)
{
	struct stat status;

	if (fcntl(fd, F_GET_SEALS) != SEALS || fstat(fd, &status) < 0 || status.st_size != sizeof(struct lineage))
		return NULL;
	void *memory = mmap(NULL, sizeof(struct lineage), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return memory == MAP_FAILED ? NULL : memory;
}

int lineage_create(struct lineage **lineage)
{
	int fd = memfd_create("cl-mcp-lineage", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return -errno;
	if (ftruncate(fd, sizeof(struct lineage)) < 0 || fcntl(fd, F_ADD_SEALS, SEALS) < 0) {
		int error = errno;
		close(fd);
		return -error;
	}
	*lineage = lineage_open(fd);
	if (*lineage)
		return fd;
	close(fd);
	return -ENOMEM;
}

void lineage_expect(struct lineage *lineage, pid_t worker)
{
	lineage->worker = process_identify(worker);
}

void lineage_free(struct lineage *lineage)
{
	munmap(lineage, sizeof(*lineage));
}

void lineage_end(struct lineage *lineage)
{
	lineage->ended = true;
}

bool lineage_has_ended(const struct lineage *lineage)
{
	return lineage->ended;
}

pid_t lineage_heir(const struct lineage *lineage)
{
	for (;;) {
		uint64_t worker = lineage->worker;

		if (lineage->ended)
			return 0;
		if (process_is_alive(worker))
			return process_pid(worker);
		int heir = shelf_heir(&lineage->shelf);
		pid_t pid = heir == SHELF_NONE ? 0 : shelf_pid(&lineage->shelf, heir);
		/* It may have become the worker between the two. */
		if (worker == lineage->worker)
			return pid;
	}
}

uint64_t lineage_worker(const struct lineage *lineage)
{
	return lineage->worker;
}

struct shelf *lineage_shelf(struct lineage *lineage)
{
	return &lineage->shelf;
}

/* ---- the worker */

void lineage_begin(struct lineage *lineage, uint64_t incarnation, uint64_t last_seq)
{
	lineage->incarnation = incarnation;
	lineage->begun = lineage->answered = lineage->forgotten = last_seq;
	lineage->worker = process_identify(getpid());
}

static void append(struct recent *recent, const uint8_t *bytes, size_t length)
{
	size_t room = LINEAGE_CODE_MAX - recent->length;

	if (length > room) {
		recent->is_cut = true;
		length = utf8_whole_characters(bytes, room);
	}
	memcpy(recent->code + recent->length, bytes, length);
	recent->length += (uint32_t)length;
}

/* What nobody has asked for is not told as undone. */
static bool is_chore(const struct request *request)
{
	static const char saving[] = "save-state";

	return request->operation && request->operation_length == sizeof(saving) - 1 &&
		memcmp(request->operation, saving, sizeof(saving) - 1) == 0;
}

void lineage_note_begun(struct lineage *lineage, const struct request *request)
{
	struct recent *recent = &lineage->recent[request->seq % LINEAGE_RECENT];

	recent->seq = is_chore(request) ? 0 : request->seq;
	recent->is_cut = recent->is_undone = recent->is_told = false;
	recent->length = 0;
	if (request->operation) {
		append(recent, request->operation, request->operation_length);
		if (request->code_length > 0)
			append(recent, (const uint8_t *)" ", 1);
	}
	if (request->shown)
		append(recent, request->shown, request->shown_length);
	else
		append(recent, request->code, request->code_length);
	lineage->origin_length = request->origin_length <= LINEAGE_ORIGIN_MAX ? request->origin_length : 0;
	memcpy(lineage->origin, request->origin, lineage->origin_length);
	lineage->begun = request->seq;
}

void lineage_note_answered(struct lineage *lineage, uint64_t seq)
{
	lineage->answered = seq;
}

void lineage_note_forgotten(struct lineage *lineage, uint64_t seq)
{
	lineage->forgotten = seq;
}

void lineage_note_told(struct lineage *lineage, uint64_t seq)
{
	lineage->told = seq;
	for (struct recent *recent = lineage->recent; recent < lineage->recent + LINEAGE_RECENT; recent++)
		recent->is_told |= recent->is_undone && recent->seq <= seq;
}

void lineage_set_memo(struct lineage *lineage, const uint8_t *memo, size_t length)
{
	if (length > WORKLINK_MEMO_MAX)
		return;
	lineage->memo_length = 0; /* while it is half written */
	memcpy(lineage->memo, memo, length);
	lineage->memo_length = length;
}

void lineage_put_memo(const struct lineage *lineage, struct frame_builder *hello)
{
	if (lineage->memo_length > 0 && lineage->memo_length <= WORKLINK_MEMO_MAX)
		frame_put(hello, WORK_MEMO, lineage->memo, lineage->memo_length);
}

/* ---- the copy */

bool lineage_inherit(struct lineage *lineage, uint64_t dead)
{
	return atomic_compare_exchange_strong(&lineage->worker, &dead, process_identify(getpid()));
}

uint64_t lineage_incarnate(struct lineage *lineage)
{
	return ++lineage->incarnation;
}

uint64_t lineage_begun(const struct lineage *lineage)
{
	return lineage->begun;
}

uint64_t lineage_forgotten(const struct lineage *lineage)
{
	return lineage->forgotten;
}

/* One line, whatever the code's own lines are. */
static void put_undone(const struct recent *recent, struct frame_builder *hello)
{
	static const char more[] = "...";
	char text[LINEAGE_CODE_MAX + sizeof(more)];
	size_t length = recent->length < LINEAGE_CODE_MAX ? recent->length : LINEAGE_CODE_MAX;

	for (size_t i = 0; i < length; i++)
		text[i] = recent->code[i] < ' ' ? ' ' : (char)recent->code[i];
	if (recent->is_cut) {
		memcpy(text + length, more, sizeof(more) - 1);
		length += sizeof(more) - 1;
	}
	frame_put_number(hello, WORK_UNDONE_SEQ, recent->seq);
	frame_put(hello, WORK_UNDONE, text, length);
}

static uint64_t first_remembered(uint64_t first, uint64_t last)
{
	return last >= first + LINEAGE_RECENT ? last - LINEAGE_RECENT + 1 : first;
}

void lineage_note_undone(struct lineage *lineage, uint64_t restored)
{
	uint64_t last = lineage->begun < lineage->answered ? lineage->begun : lineage->answered;

	for (uint64_t seq = first_remembered(restored + 1, last); seq <= last; seq++)
		if (lineage->recent[seq % LINEAGE_RECENT].seq == seq)
			lineage->recent[seq % LINEAGE_RECENT].is_undone = true;
}

void lineage_put_undone(const struct lineage *lineage, uint64_t restored, struct frame_builder *hello)
{
	frame_put_number(hello, WORK_UNDONE_FROM, (lineage->told > restored ? lineage->told : restored) + 1);
	for (uint64_t seq = first_remembered(1, lineage->begun); seq <= lineage->begun; seq++) {
		const struct recent *recent = &lineage->recent[seq % LINEAGE_RECENT];
		if (recent->seq == seq && recent->is_undone && !recent->is_told)
			put_undone(recent, hello);
	}
}

void lineage_put_origin(const struct lineage *lineage, uint8_t tag, struct frame_builder *hello)
{
	if (lineage->origin_length > 0 && lineage->origin_length <= LINEAGE_ORIGIN_MAX)
		frame_put(hello, tag, lineage->origin, lineage->origin_length);
}
