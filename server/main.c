/* bailiwick: one binary, one command a word. Leaves out everything but the choice. */
#include "cli.h"
#include <stdio.h>

static const char help[] =
    "Usage: bailiwick COMMAND [options]\n"
    "\n"
    "  serve         run a cell          (--data DIR; --dev for a first look on "
    "loopback)\n"
    "  init          make a data folder and its first administrator's key\n"
    "  key           add, list or revoke API keys\n"
    "  config        print the configuration with its documentation\n"
    "  policy        check and test policy sets, put them together from packs\n"
    "  catalogue     countries, zones and adequacy: show, gaps, check, diff\n"
    "  audit         verify an audit log offline\n"
    "  doctor        look for what would keep a cell from serving well\n"
    "  ingest        put a folder of documents into a running cell\n"
    "  query         ask a running cell a question\n"
    "  eval          measure answers against judged queries\n"
    "  mcp           give a coding assistant a running cell's tools (MCP over stdio)\n"
    "  relabel       move points to other labels, or show what that would do\n"
    "  seal          end a bulk load: wait until a collection's indexes serve\n"
    "  explain       say why the policies answer as they do, and what would turn it\n"
    "  place         tell where a workload may run, and for how much\n"
    "\n"
    "  --version, --help; every command has its own --help\n";

typedef struct command {
    const char *name;
    int (*run)(int argc, char **argv); /* argv[0] is the command's word */
} command;

static const command commands[] = {
    {"serve", bw_cli_serve},        {"init", bw_cli_init},     {"key", bw_cli_key},
    {"config", bw_cli_show_config}, {"policy", bw_cli_policy}, {"audit", bw_cli_audit},
    {"doctor", bw_cli_doctor},      {"ingest", bw_cli_ingest}, {"query", bw_cli_query},
    {"catalogue", bw_cli_catalogue}, {"place", bw_cli_place},
    {"explain", bw_cli_explain},     {"relabel", bw_cli_relabel},
    {"seal", bw_cli_seal},           {"mcp", bw_cli_mcp},
    {"eval", bw_cli_eval},
};

int main(int argc, char **argv)
{
    if (argc < 2) {
        (void)fputs(help, stderr);
        return 2;
    }
    if (strcmp(argv[1], "--version") == 0)
        return bw_cli_say("bailiwick " BW_VERSION "\n",
                          sizeof "bailiwick " BW_VERSION "\n" - 1);
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0)
        return bw_cli_say(help, sizeof help - 1);
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            return commands[i].run(argc - 1, argv + 1);
    (void)fprintf(stderr, "bailiwick: unknown command %.40s\n\n%s", argv[1], help);
    return 2;
}
