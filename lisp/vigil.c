/*
 * vigil.c - watching the worker, and one copy after the other.
 *
 * All copies of a session wake when its worker dies. Each finds in the shelf who takes over, and they agree on that
 * because it is the same for all; if it is another one, they wait until it has, or is dead too. Should two think that
 * it is them, because one has died between their looks, one exchange in memory decides.
 */
#include "config.h"

#include "vigil.h"

#include <unistd.h>

#include "process.h"
#include "shelf.h"

/* How long an heir may take before the others look again. */
#define LOOK_FIRST_MS 1
#define LOOK_LAST_MS 50
#define EXIT_NOT_NEEDED 0

/* False if it is another one's turn, which may be over when we look again. */
static bool is_our_turn(struct lineage *lineage, uint64_t dead, int patience_ms)
{
	const struct shelf *shelf = lineage_shelf(lineage);
	int own = shelf_place_of(shelf, getpid());

	if (lineage_has_ended(lineage) || own == SHELF_NONE)
		_exit(EXIT_NOT_NEEDED);
	int heir = shelf_heir(shelf);
	if (heir == own)
		return lineage_inherit(lineage, dead);
	if (heir != SHELF_NONE)
		process_await_end(shelf->copies[heir].process, patience_ms);
	return false;
}

uint64_t vigil_keep(struct lineage *lineage, uint64_t maker)
{
	int patience_ms = LOOK_FIRST_MS;

	process_await_end(maker, -1);
	for (;;) {
		uint64_t worker = lineage_worker(lineage);

		if (process_is_alive(worker)) {
			process_await_end(worker, -1);
			patience_ms = LOOK_FIRST_MS;
		}
		if (lineage_worker(lineage) != worker)
			continue;
		if (is_our_turn(lineage, worker, patience_ms))
			return worker;
		if (patience_ms < LOOK_LAST_MS)
			patience_ms *= 2;
	}
}
