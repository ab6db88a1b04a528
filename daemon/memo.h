/*
 * memo.h - what a session's process keeps for the daemon: the session's name, and what else stands in its row.
 *
 * The worker does not read it, and says it with each hello. A daemon that finds the process but no row, because the
 * database was lost, makes the row again from that.
 */
#ifndef MEMO_H
#define MEMO_H

#include "frame.h"

struct session;

void memo_encode(struct frame_builder *builder, const struct session *session);
/*
 * That everything is gone, if nobody could be told yet: a process that began anew does not know it by itself, as a copy
 * that took over does.
 */
void memo_recall_epitaph(const uint8_t *data, size_t length, struct session *session);
/* What can be true of what it says becomes the session's. False if it is none. */
bool memo_decode(const uint8_t *data, size_t length, struct session *session);

#endif
