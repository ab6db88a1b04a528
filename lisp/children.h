/*
 * children.h - subprocesses that a stopped evaluation started and will never wait for.
 */
#ifndef CHILDREN_H
#define CHILDREN_H

/* An evaluation begins: what is started from now on belongs to it. */
void children_mark(void);
/* Kills what belongs to it, with all descendants. */
void children_kill_marked(void);

#endif
