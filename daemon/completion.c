/*
 * completion.c - completing the {id} of resource templates, the only thing that can be completed.
 */
#include "completion.h"

#include "inquiry.h"
#include "resource.h"

/* The protocol allows no more. */
#define VALUES_MAX 100

static void on_found(struct request *request, const struct inquiry_said *said, void *context)
{
	struct json_object *result;

	(void)context;
	if (said->status != INQUIRY_FOUND) {
		inquiry_refuse(request, said, NULL);
		return;
	}
	result = json_object_new_object();
	json_object_object_add(result, "completion", json_object_get(said->data));
	request_result(request, result);
}

void completion_complete(struct request *request)
{
	struct json_object *ref = json_object_object_get(request->params, "ref");
	struct json_object *argument = json_object_object_get(request->params, "argument");
	const char *type, *uri, *name, *value;

	if (!(type = request_param_text(request, ref, "type")))
		return;
	if (strcmp(type, "ref/resource") != 0) {
		request_refuse(request, RPC_INVALID_PARAMS, "Only a ref/resource can be completed");
		return;
	}
	if (!(uri = request_param_text(request, ref, "uri")) ||
		!(name = request_param_text(request, argument, "name")) ||
		!(value = request_param_text(request, argument, "value")))
		return;
	if (!resource_is_template(uri) || strcmp(name, "id") != 0) {
		request_refuse(request, RPC_INVALID_PARAMS,
			"No such argument of a template: resources/templates/list shows them");
		return;
	}
	struct inquiry *inquiry = inquiry_new(request, DATABASE_COMPLETE_SESSION);
	inquiry_text(inquiry, value);
	inquiry_number(inquiry, VALUES_MAX);
	inquiry_send(inquiry, on_found, NULL);
}
