/* What tools/list says of the tools. Descriptions are short (some clients warn of long
 * ones), the order is fixed, schemas are JSON Schema 2020-12. */
#include "mcp_tools.h"

#define SCHEMA                                                                           \
    "{\"$schema\":\"https://json-schema.org/draft/2020-12/schema\","                     \
    "\"type\":\"object\""
#define CLOSED ",\"additionalProperties\":false}"
#define STRING(hi) "{\"type\":\"string\",\"minLength\":1,\"maxLength\":" hi "}"
#define TEXT_OR_NULL "{\"type\":[\"string\",\"null\"]}"
#define COUNT_OR_NULL "{\"type\":[\"integer\",\"null\"],\"minimum\":0}"
#define COLLECTION "\"collection\":" STRING("255")
#define MODE                                                                             \
    "\"mode\":{\"enum\":[\"hybrid\",\"dense\",\"bm25\"],\"default\":\"hybrid\"}"
#define OFFSET(what)                                                                     \
    "\"offset\":{\"type\":\"integer\",\"minimum\":0,\"default\":0,\"description\":\"" what   \
    "\"}"
#define POINT_ID "{\"type\":[\"string\",\"integer\"]}"

#define PLACE                                                                            \
    "\"place\":{\"type\":\"object\",\"description\":\"Where this was read\","            \
    "\"properties\":{\"cell\":{\"type\":\"string\"},\"country\":{\"type\":\"string\"},"  \
    "\"operator\":{\"type\":\"string\"}},\"required\":[\"cell\",\"country\","           \
    "\"operator\"]}"
#define DECISION                                                                         \
    "\"decision\":{\"type\":\"string\",\"description\":\"The audit log's id of the "     \
    "decision\"}"
#define PASSAGE                                                                          \
    "{\"type\":\"object\",\"properties\":{\"id\":" POINT_ID                              \
    ",\"score\":{\"type\":\"number\"},\"text\":" TEXT_OR_NULL ",\"title\":" TEXT_OR_NULL \
    ",\"source\":" TEXT_OR_NULL ",\"page\":" COUNT_OR_NULL ",\"headings\":" TEXT_OR_NULL  \
    ",\"byte_begin\":" COUNT_OR_NULL ",\"byte_end\":" COUNT_OR_NULL                      \
    ",\"digest\":" TEXT_OR_NULL                                                          \
    ",\"labels\":{\"type\":\"object\"},\"class\":{\"type\":\"string\"},\"version\":"      \
    "{\"type\":\"integer\"},\"jurisdiction\":{\"type\":\"string\"}," DECISION            \
    ",\"text_next_offset\":{\"type\":\"integer\"}},\"required\":[\"id\",\"text\","       \
    "\"source\",\"jurisdiction\",\"decision\"]}"
#define PASSAGES "{\"type\":\"array\",\"items\":" PASSAGE "}"
#define NEXT "\"next_offset\":" COUNT_OR_NULL
#define READ_ONLY                                                                        \
    ",\"annotations\":{\"readOnlyHint\":true,\"destructiveHint\":false,"                 \
    "\"idempotentHint\":true,\"openWorldHint\":false}}"

static const char search[] =
    "{\"name\":\"search\",\"title\":\"Search passages\",\"description\":\"Find passages "
    "of a collection by a question in plain words. Gives whole passages with source and "
    "score; go on with next_offset.\",\"inputSchema\":" SCHEMA
    ",\"properties\":{\"query\":" STRING("65536") "," COLLECTION
    ",\"limit\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":50,\"default\":10},"
    OFFSET("next_offset of the answer before") "," MODE
    ",\"filter\":{\"type\":\"object\",\"description\":\"Qdrant filter on payload, e.g. "
    "{must: [{key: metadata.source, match: {value: a.md}}]}\"}},\"required\":[\"query\","
    "\"collection\"]" CLOSED ",\"outputSchema\":" SCHEMA
    ",\"properties\":{\"passages\":" PASSAGES "," PLACE "," DECISION "," NEXT
    "},\"required\":[\"passages\",\"place\",\"decision\",\"next_offset\"]}" READ_ONLY;

static const char get_passage[] =
    "{\"name\":\"get_passage\",\"title\":\"Get a passage\",\"description\":\"One passage "
    "by collection and id, with its neighbours in the document.\",\"inputSchema\":" SCHEMA
    ",\"properties\":{" COLLECTION ",\"id\":" POINT_ID
    ",\"neighbours\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":3,\"default\":1},"
    OFFSET("text_next_offset of the answer before: where a very long text goes on")
    "},\"required\":[\"collection\",\"id\"]" CLOSED ",\"outputSchema\":" SCHEMA
    ",\"properties\":{\"passage\":" PASSAGE ",\"before\":" PASSAGES ",\"after\":" PASSAGES
    "," PLACE "," DECISION "},\"required\":[\"passage\",\"before\",\"after\",\"place\","
    "\"decision\"]}" READ_ONLY;

static const char list_collections[] =
    "{\"name\":\"list_collections\",\"title\":\"List collections\",\"description\":\"The "
    "collections that can be searched.\",\"inputSchema\":" SCHEMA ",\"properties\":{"
    OFFSET("next_offset of the answer before") "}" CLOSED ",\"outputSchema\":" SCHEMA
    ",\"properties\":{\"collections\":{\"type\":\"array\",\"items\":{\"type\":\"object\","
    "\"properties\":{\"name\":{\"type\":\"string\"},\"labels\":{\"type\":[\"object\","
    "\"null\"]}},\"required\":[\"name\"]}}," PLACE "," DECISION "," NEXT
    "},\"required\":[\"collections\",\"place\",\"decision\",\"next_offset\"]}" READ_ONLY;

static const char explain_access[] =
    "{\"name\":\"explain_access\",\"title\":\"Explain access\",\"description\":\"Why a "
    "collection's answers may be read here, or why one passage (id) or class may. Says "
    "nothing of what this key may not read.\",\"inputSchema\":" SCHEMA ",\"properties\":{"
    COLLECTION ",\"id\":" POINT_ID
    ",\"class\":{\"type\":\"string\",\"pattern\":\"^[0-9a-f]{64}$\"}," MODE ","
    OFFSET("next_offset of the answer before") "},\"required\":[\"collection\"]" CLOSED
    ",\"outputSchema\":" SCHEMA ",\"properties\":{\"explanation\":{\"type\":\"object\"},"
    PLACE "," DECISION "," NEXT "},\"required\":[\"explanation\",\"place\","
    "\"decision\",\"next_offset\"]}" READ_ONLY;

static const bw_mcp_tool tools[] = {
    {"search", bw_mcp__search, search},
    {"get_passage", bw_mcp__get_passage, get_passage},
    {"list_collections", bw_mcp__list_collections, list_collections},
    {"explain_access", bw_mcp__explain_access, explain_access},
};
enum { NTOOLS = sizeof tools / sizeof tools[0] };

const bw_mcp_tool *bw_mcp_tool_find(bw_str name)
{
    for (size_t i = 0; i < NTOOLS; i++)
        if (bw_str_eq(name, bw_str_c(tools[i].name)))
            return &tools[i];
    return NULL;
}

void bw_mcp_tools_put(bw_buf *b)
{
    for (size_t i = 0; i < NTOOLS; i++) {
        bw_json_sep(b);
        bw_buf_puts(b, tools[i].listing);
    }
}
