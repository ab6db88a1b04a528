/*
 * mcp.h - the Model Context Protocol over a conversation: methods and notifications.
 *
 * Knows nothing of sockets: lines come in here, answers leave through the conversation.
 */
#ifndef MCP_H
#define MCP_H

#include "conversation.h"

/* One line of the client's, without its line end. Every line ends in exactly one answer or settlement. */
void mcp_line(struct conversation *conversation, uint64_t line, const char *text, size_t length);

/* In place of a line that was too long to be taken. */
void mcp_oversize(struct conversation *conversation, uint64_t line);

#endif
