/*
 * vigil.h - how a sleeping copy learns that it is needed.
 */
#ifndef VIGIL_H
#define VIGIL_H

#include <stdint.h>

#include "lineage.h"

/*
 * Sleeps until the worker is dead and it is this copy that takes its place: then it is the worker, and the identity of
 * the dead one is returned. Ends the process if nobody needs it any more. The first one to watch is who has made it.
 */
uint64_t vigil_keep(struct lineage *lineage, uint64_t maker);

#endif
