/* The tools of /mcp. Private to mcp_schema.c and mcp_tools.c. */
#ifndef BW_MCP_TOOLS_H
#define BW_MCP_TOOLS_H
#include "mcp.h"

/* args: an object, the root of its own text, so that pointers in errors begin at it.
 * Members of the answer are appended to b, which holds `{`. Fails as a handler does. */
typedef bw_status (*bw_mcp_run)(bw_request *r, const bw_json *args, bw_response *inner,
                                bw_buf *b);

struct bw_mcp_tool {
    const char *name;
    bw_mcp_run run;
    const char *listing; /* JSON */
};

bw_status bw_mcp__search(bw_request *r, const bw_json *args, bw_response *inner, bw_buf *b);
bw_status bw_mcp__get_passage(bw_request *r, const bw_json *args, bw_response *inner,
                              bw_buf *b);
bw_status bw_mcp__list_collections(bw_request *r, const bw_json *args,
                                   bw_response *inner, bw_buf *b);
bw_status bw_mcp__explain_access(bw_request *r, const bw_json *args, bw_response *inner,
                                 bw_buf *b);
#endif
