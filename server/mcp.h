/* The Model Context Protocol at /mcp, and what the stdio bridge shares with it.
 *
 * One endpoint, two generations: the 2025 versions (initialize, then a version header)
 * and 2026-07-28 (each request names its version in params._meta). mcp.c has the law of
 * both, mcp_message.c reads one JSON-RPC message, mcp_tools.c has the tools. Sources: the
 * specification of each version; JSON-RPC 2.0. */
#ifndef BW_MCP_H
#define BW_MCP_H
#include "gate_request.h"
#include "guard.h"

#define BW_MCP_MODERN "2026-07-28"
#define BW_MCP_META_VERSION "io.modelcontextprotocol/protocolVersion"
#define BW_MCP_META_CAPABILITIES "io.modelcontextprotocol/clientCapabilities"
#define BW_MCP_META_SERVER "io.modelcontextprotocol/serverInfo"

enum {
    BW_MCP_MESSAGE_BYTES = 1 << 20, /* of a message or a batch */
    BW_MCP_ID_BYTES = 1024,         /* of an id's token */
    BW_MCP_METHOD_BYTES = 128,
    BW_MCP_BATCH = 32,            /* messages of a batch (2025-03-26) */
    BW_MCP_OUTPUT_BYTES = 40000,  /* of a tool's answer: clients cut longer ones */
    BW_MCP_TEXT_BYTES = 30000     /* of one passage's text */
};

enum { /* JSON-RPC's codes, and MCP's own */
    BW_MCP_PARSE = -32700,
    BW_MCP_REQUEST = -32600,
    BW_MCP_METHOD = -32601,
    BW_MCP_PARAMS = -32602,
    BW_MCP_INTERNAL = -32603,
    BW_MCP_HEADER = -32020,
    BW_MCP_VERSION = -32022
};

typedef enum bw_mcp_kind {
    BW_MCP_CALL,     /* wants an answer with its id */
    BW_MCP_NOTICE,   /* wants none */
    BW_MCP_RESPONSE, /* of the client to nothing that we asked */
    BW_MCP_BAD       /* `why` says what is wrong */
} bw_mcp_kind;

typedef struct bw_mcp_message { /* borrowed from the parsed text */
    bw_mcp_kind kind;
    bw_str id; /* the token as it came: a string or an integer; none if there is none */
    bw_str method;
    const bw_json *params; /* an object, or NULL */
    bw_str version;        /* of params._meta, or none */
    const char *why;
} bw_mcp_message;

/* BW_MCP_PARSE in *code when the text is no JSON that we take (invalid UTF-8 as well),
 * BW_MCP_REQUEST when it is too long; else 0 and *out. */
BW_MUST_USE bw_status bw_mcp_parse(bw_ctx *ctx, bw_str text, int *code,
                                   const bw_json **out);
void bw_mcp_message_read(const bw_json *v, bw_mcp_message *out);
/* What Mcp-Name must say: params.name of tools/call; none for other methods. */
bw_str bw_mcp_name(const bw_mcp_message *m);

/* A header's value as text: `=?base64?…?=` is decoded (into ctx's arena). False: it is
 * malformed. */
bool bw_mcp_header_read(bw_ctx *ctx, bw_str value, bw_str *out);
/* The same way back: wrapped only when it must be. NULL when memory is out. */
const char *bw_mcp_header_write(bw_ctx *ctx, bw_str text);

/* {"jsonrpc","id","error":{"code","message"}}; id none: null. data: JSON, or none. */
void bw_mcp_put_error(bw_buf *b, bw_str id, int code, bw_str message, bw_str data);

/* ---- tools (mcp_tools.c) ---- */
typedef struct bw_mcp_tool bw_mcp_tool;
const bw_mcp_tool *bw_mcp_tool_find(bw_str name);
void bw_mcp_tools_put(bw_buf *b); /* their descriptions, as members of a list */
/* Runs one as its /v1 call runs. *text gets the answer's JSON object, or, with *failed,
 * an error that a model can act on; in ctx's arena. Fails only when memory is out. */
BW_MUST_USE bw_status bw_mcp_tool_run(bw_request *r, const bw_mcp_tool *t,
                                      const bw_json *arguments, bool *failed, bw_str *text);
#endif
