/*
 * recovery.c - sessions and conversations are stored again when their database is lost.
 *
 * What a session was evaluated with stands in its process and goes on; its transcript, model and metadata stay in the
 * file that was set aside.
 */
#include "recovery.h"

#include "conversation.h"
#include "server.h"
#include "session.h"
#include "store.h"
#include "subscription.h"

void recovery_fill_store(void *context)
{
	struct server *server = context;
	struct conversation *conversation;
	struct session *session;

	LIST_FOREACH(session, &server->roster.sessions, next)
	session_restore(session);
	LIST_FOREACH(conversation, &server->conversations, next)
	{
		if (conversation->saved)
			conversation_save(conversation, NULL, NULL);
		subscription_restore(conversation);
		if (conversation->used)
			store_use_session(server->store, conversation->nonce, conversation->used);
	}
}
