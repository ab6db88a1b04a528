/*
 * visit.c - the list of them.
 */
#include "visit.h"

#include "alloc.h"
#include "conversation.h"

struct visit {
	STAILQ_ENTRY(visit) next;
	struct request *request;
};

void visit_add(struct visit_list *visits, struct request *request)
{
	struct visit *visit = new_zeroed(sizeof(*visit));

	visit->request = request;
	request->conversation->lookups++;
	STAILQ_INSERT_TAIL(visits, visit, next);
}

static struct request *take_first(struct visit_list *visits)
{
	struct visit *visit = STAILQ_FIRST(visits);
	struct request *request = visit->request;

	STAILQ_REMOVE_HEAD(visits, next);
	free(visit);
	return request;
}

struct request *visit_next(struct visit_list *visits)
{
	while (!STAILQ_EMPTY(visits)) {
		struct request *request = take_first(visits);

		request->conversation->lookups--;
		if (!request->unwanted)
			return request;
		request_withdraw(request);
	}
	return NULL;
}

void visit_drop_all(struct visit_list *visits)
{
	while (!STAILQ_EMPTY(visits))
		take_first(visits);
}
