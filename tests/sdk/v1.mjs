// The v1 SDK: the handshake with the newest revision that it knows.

import assert from "node:assert/strict";

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import {
  LATEST_PROTOCOL_VERSION,
  ResourceListChangedNotificationSchema,
  ResourceUpdatedNotificationSchema,
} from "@modelcontextprotocol/sdk/types.js";

import { converse, server } from "./conversation.mjs";

const client = new Client({ name: "sdk-v1", version: "1" });
const transport = new StdioClientTransport(server());
const schemas = [ResourceListChangedNotificationSchema, ResourceUpdatedNotificationSchema];
let agreed;
transport.setProtocolVersion = (version) => (agreed = version);

await converse({
  client,
  transport,
  connect: () => client.connect(transport),
  agreed: () => assert.equal(agreed, LATEST_PROTOCOL_VERSION),
  call: (params, options) => client.callTool(params, undefined, options),
  hear: (method, handler) =>
    client.setNotificationHandler(schemas.find((each) => each.shape.method.value === method), handler),
  async subscribe(uri) {
    await client.subscribeResource({ uri });
    return () => client.unsubscribeResource({ uri });
  },
});
