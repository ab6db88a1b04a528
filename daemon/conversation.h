/*
 * conversation.h - what one shim's client and the server have agreed on, and what is still to be answered.
 *
 * A conversation is known by its shim's nonce. It outlives the connection: a shim that lost it comes back with the same
 * nonce, and a restarted daemon finds revision and default session in the store.
 */
#ifndef CONVERSATION_H
#define CONVERSATION_H

#include "link.h"
#include "request.h"
#include "store.h"
#include "visit.h"

struct server;

/* How a conversation reaches its client; implemented by the connection. */
struct conversation_outlet {
	void (*answer)(void *client, uint64_t line, const struct text *text); /* line 0: a notification */
	void (*settle)(void *client, uint64_t line);
	/* It may have been too much before. */
	void (*relieved)(void *client);
	/* True while the client does not read what it was sent. */
	bool (*congested)(void *client);
	/* True while anything of that has not left us. */
	bool (*owed)(void *client);
};

/* A client may cancel thousands of requests that it has pipelined, one by one. */
#define CONVERSATION_BUCKETS 256

struct conversation {
	LIST_ENTRY(conversation) next;
	struct server *server;
	uint8_t nonce[LINK_NONCE_SIZE];
	const struct conversation_outlet *outlet;
	void *client;                  /* NULL while no connection is there */
	const struct revision *agreed; /* by the handshake, NULL before it */
	uint64_t initialize_line;      /* which line that was, so that it can be answered again */
	char *session;                 /* id of the session that calls without one go to; NULL until one is needed */
	char *wanted_session;          /* id or name that the shim was started with */
	bool wants_last;               /* it was started to go on with the one used last: see lastused.h */
	bool seeks_last;               /* the store is asked for that, */
	struct visit_list visits;      /* and these wait for it */
	char *directory;               /* where the client runs */
	unsigned owner;                /* the uid of who is connected: its sessions are the ones that can be reached */
	unsigned pid;                  /* of its shim */
	uint64_t since;                /* that one is connected; universal time */
	char *place;                   /* id of the session in which it did something last, also if it named it */
	char *client_name;             /* as it calls itself; NULL if it has not told */
	uint64_t lines_seen;           /* the highest line that came; lower ones come again */
	uint64_t lines_settled;        /* what the store need not keep any more */
	bool ended;                    /* the client has said its last line */
	bool saved;                    /* the store knows what was agreed on */
	bool has_begun;                /* its session was chosen once, */
	char *used;                    /* and this one is the last that the store knows to be used; NULL: none is */
	bool recalled;                 /* what the store knows of it has been asked for, if there can be anything, */
	bool recalling;                /* and has not been told: no line is taken before */
	bool answers_stored;           /* the store holds answers that a settlement would free */
	size_t lookups;                /* requests that wait to hear whether the store has their answer */
	size_t inquiries;              /* what the store works on for it */
	struct request_list requests;
	struct request_bucket by_id[CONVERSATION_BUCKETS];
	size_t request_count;
	size_t request_bytes;  /* of their lines */
	struct stream *stream; /* what it hears of by its handshake, NULL before the client is initialized */
	struct event *expiry;  /* runs while nobody is connected */
};
LIST_HEAD(conversation_list, conversation);

struct conversation *conversation_find(struct server *server, const uint8_t nonce[static LINK_NONCE_SIZE]);
struct conversation *conversation_new(struct server *server, const uint8_t nonce[static LINK_NONCE_SIZE]);
void conversation_free_all(struct server *server);

void conversation_attach(struct conversation *conversation, const struct conversation_outlet *outlet, void *client);
/* The connection is gone. The conversation waits some time for the shim to come back, unless it had said its last line.
 */
void conversation_detach(struct conversation *conversation);

void conversation_add(struct conversation *conversation, struct request *request);
void conversation_remove(struct conversation *conversation, struct request *request);
/* NULL if no such request is open. */
struct request *conversation_by_id(struct conversation *conversation, const char *id);
struct request *conversation_by_line(struct conversation *conversation, uint64_t line, uint32_t item);

void conversation_answer(struct conversation *conversation, uint64_t line, const struct text *text);
void conversation_notify(struct conversation *conversation, const struct text *text);
void conversation_settle(struct conversation *conversation, uint64_t line);
bool conversation_congested(const struct conversation *conversation);
/* The store is asked for the client, and has answered. */
void conversation_begin_inquiry(struct conversation *conversation);
void conversation_end_inquiry(struct conversation *conversation);
/* True while something that was said might be lost with this process. */
bool conversation_owes(const struct conversation *conversation);

/* A session has another id than it was announced with, or is none (NULL): those who have it as their default follow. */
void conversation_follow_session(struct server *server, const char *old_id, const char *new_id);

/* From now on calls without one go to that session; NULL: to a new one. conversation_save is still to be called. */
void conversation_choose(struct conversation *conversation, const char *session);
/* Something is done in that session for the client. */
void conversation_use(struct conversation *conversation, const char *session);
/* Somebody is connected whose own session that is, or who did something there last. */
bool conversation_is_in(const struct conversation *conversation, const char *session);
/* Its client goes by another name, or comes from elsewhere, than was known. */
void conversation_forget_use(struct conversation *conversation);

/* Puts what was agreed on into the store; done, if it is not NULL, comes when it is there or cannot be. */
void conversation_save(struct conversation *conversation, store_status_callback done, void *context);

#endif
