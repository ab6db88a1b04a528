// The v2 SDK, in the mode that the second argument names: "legacy" shakes hands, "auto" probes and chooses 2026-07-28,
// any other is the one revision that it will speak.

import assert from "node:assert/strict";

import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

import { converse, server } from "./conversation.mjs";

const asked = process.argv[3];
const mode = ["legacy", "auto"].includes(asked) ? asked : { pin: asked };
const client = new Client({ name: "sdk-v2", version: "1" }, { versionNegotiation: { mode } });
const transport = new StdioClientTransport(server());

await converse({
  client,
  transport,
  connect: () => client.connect(transport),
  agreed() {
    const handshake = asked === "legacy";
    assert.equal(client.getProtocolEra(), handshake ? "legacy" : "modern");
    assert.equal(client.getNegotiatedProtocolVersion(), handshake ? "2025-11-25" : "2026-07-28");
    if (!handshake) assert.deepEqual(client.getDiscoverResult().supportedVersions, ["2026-07-28"]);
  },
  call: (params, options) => client.callTool(params, options),
  hear: (method, handler) => client.setNotificationHandler(method, handler),
  async subscribe(uri) {
    if (client.getProtocolEra() === "modern") {
      const filter = { resourcesListChanged: true, resourceSubscriptions: [uri] };
      const stream = await client.listen(filter);
      assert.deepEqual(stream.honoredFilter, filter);
      return () => stream.close();
    }
    await client.subscribeResource({ uri });
    return () => client.unsubscribeResource({ uri });
  },
});
