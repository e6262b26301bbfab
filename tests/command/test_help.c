/* SPDX-License-Identifier: MIT
 *
 * Help and completions: both have every option, and help fits a screen.
 */
#include "common.h"

#include <sys/resource.h>

static const char *const commands[] = { "run",    "transcribe", "gpus",  "estimate", "top",   "status",
                                        "export", "report",     "merge", "push",     "models" };
enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

TEST(version)
{
    struct ran r = sh("gpu-dispatch --version");
    CHECK_EQ(strncmp(r.out, "gpu-dispatch ", 13), 0);
    CHECK_STR(r.out, sh("gpu-dispatch -V").out);
    CHECK_EQ(r.status, 0);
}

/* Twenty starts take no longer than one start of a Python program. Measures the CPU time, and the elapsed time of the
 * fastest start, because the machine may be busy. */
TEST(the_command_starts_quickly)
{
    struct rusage use;
    int64_t fastest = INT64_MAX;
    for (int i = 0; i < 20; i++) {
        const int64_t from = ms_now();
        CHECK_EQ(sh("exec gpu-dispatch --version").status, 0);
        const int64_t took = ms_now() - from;
        fastest = took < fastest ? took : fastest;
    }
    CHECK_EQ(getrusage(RUSAGE_CHILDREN, &use), 0);
    CHECK_LT((use.ru_utime.tv_sec + use.ru_stime.tv_sec) * 1000 + (use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1000,
             2000 * TEST_SLOWDOWN);
    CHECK_LT(fastest, 1000 * TEST_SLOWDOWN);
}

TEST(every_way_to_ask_for_help_gives_the_same)
{
    const struct ran general = sh("gpu-dispatch help");
    CHECK_CONTAINS(general.out, "Topics: ");
    CHECK_PRINTS(sh("gpu-dispatch --help"), general.out);
    CHECK_PRINTS(sh("gpu-dispatch help --help"), general.out);
    CHECK_PRINTS(sh("gpu-dispatch help -h"), general.out);
    for (size_t i = 0; i < N_COMMANDS; i++)
        CHECK_STR(sh("gpu-dispatch %s --help", commands[i]).out, sh("gpu-dispatch help %s", commands[i]).out);
}

/* The topics in the general help: its commands, then the names in its line "Topics:". */
#define NAMED_TOPICS                                                              \
    "gpu-dispatch help | sed -n '/^Commands:/,/^$/s/^  \\([a-z]*\\) .*/\\1/p' | " \
    "grep -v '^help$'; gpu-dispatch help | sed -n 's/,//g; s/^Topics: //p'"

TEST(every_topic_that_is_named_exists)
{
    struct ran r = sh(NAMED_TOPICS);
    CHECK_GT(r.out_size, 100);
    CHECK_PRINTS(sh("for t in $(echo '%s'); do gpu-dispatch help $t > text || echo no $t; [ $(wc -l < text) -gt 5 ] || "
                    "echo short $t; done",
                    r.out),
                 "");
}

TEST(unknown_topic)
{
    CHECK_REFUSED(sh("gpu-dispatch help placeholder"),
                  "gpu-dispatch: no help topic \"placeholder\": did you mean placeholders?");
    CHECK_REFUSED(sh("gpu-dispatch help zzzzzzz"),
                  "gpu-dispatch: no help topic \"zzzzzzz\": gpu-dispatch help lists the topics");
}

TEST(help_fits_80_columns)
{
    CHECK_PRINTS(sh("for t in '' $(" NAMED_TOPICS "); do gpu-dispatch help $t; done | awk 'length > 80'"), "");
}

TEST(general_help_fits_a_screen)
{
    CHECK_LT(count_lines(sh("gpu-dispatch help").out), 24);
}

TEST(examples_come_before_options)
{
    for (size_t i = 0; i < N_COMMANDS; i++) {
        struct ran r = sh("gpu-dispatch %s --help", commands[i]);
        const char *examples = strstr(r.out, "Examples:"), *options = strstr(r.out, "--help ");
        CHECK(examples && options && examples < options);
    }
}

/* --- every option in each place --------------------------------------------------------------- */

static void each_option_is_in(const char *command, const char *file)
{
    struct ran r = sh("f=%s; [ -s $f ] || { echo no $f; exit; }; for o in $(gpu-dispatch %s --list-options); do "
                      "grep -qwFe \"$o\" $f || echo \"$o\"; done",
                      file, command);
    if (r.out_size)
        FAIL("missing in %s: %s", file, r.out);
    CHECK_STR(r.err, "");
}

TEST(completions_have_every_option)
{
    for (size_t i = 0; i < N_COMMANDS; i++) {
        each_option_is_in(commands[i], "$GD_SOURCE_ROOT/completions/gpu-dispatch.bash");
        each_option_is_in(commands[i], "$GD_SOURCE_ROOT/completions/_gpu-dispatch");
    }
}

/* --- completion in bash ------------------------------------------------------------------------ */

/* The completions of the last word of a line. */
static char *completions(const char *words)
{
    return sh("touch file.txt other.so; source $GD_SOURCE_ROOT/completions/gpu-dispatch.bash || exit; COMP_WORDS=(%s); "
              "COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); COMP_LINE=\"%s\"; "
              "COMP_POINT=${#COMP_LINE}; _gpu_dispatch; printf '%%s\\n' \"${COMPREPLY[@]}\"",
              words, words)
        .out;
}

TEST(bash_completes_commands)
{
    CHECK_STR(completions("gpu-dispatch es"), "estimate\n");
    CHECK_CONTAINS(completions("gpu-dispatch ''"), "run\n");
}

TEST(bash_completes_options)
{
    CHECK_STR(completions("gpu-dispatch run --retri"), "--retries\n");
    CHECK_STR(completions("gpu-dispatch estimate --rec"), "--recursive\n");
    CHECK_STR(completions("gpu-dispatch gpus --js"), "--json\n");
    CHECK_STR(completions("gpu-dispatch transcribe --model-s"), "--model-size\n");
    CHECK_STR(completions("gpu-dispatch transcribe file.txt --word"), "--word-timestamps\n");
}

TEST(bash_completes_values)
{
    CHECK_STR(completions("gpu-dispatch run --order n"), "name\nnone\n");
    CHECK_STR(completions("gpu-dispatch run --joblog fi"), "file.txt\n");
    CHECK_STR(completions("gpu-dispatch run --halt soon,f"), "soon,fail=1\nsoon,fail=10%\n");
    CHECK_STR(completions("gpu-dispatch help pla"), "placeholders\n");
    CHECK_STR(completions("gpu-dispatch transcribe --model-size larg"), "large-v3\nlarge-v3-turbo\n");
    CHECK_STR(completions("gpu-dispatch transcribe fi"), "file.txt\n");
    CHECK_STR(completions("gpu-dispatch transcribe file.txt --sync f"), "full\n");
}

/* Bash itself also splits a line at ':' and '='. */
static char *completions_split(const char *pieces, const char *line)
{
    return sh("source $GD_SOURCE_ROOT/completions/gpu-dispatch.bash || exit; COMP_WORDS=(%s); "
              "COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); COMP_LINE='%s'; COMP_POINT=${#COMP_LINE}; _gpu_dispatch; "
              "printf '%%s\\n' \"${COMPREPLY[@]}\"",
              pieces, line)
        .out;
}

TEST(bash_completes_after_colons_and_equals_signs)
{
    CHECK_STR(completions_split("gpu-dispatch run --gpus sim :", "gpu-dispatch run --gpus sim:"), "2\n4\n");
    CHECK_STR(completions_split("gpu-dispatch run --halt soon,fail = 1", "gpu-dispatch run --halt soon,fail=1"),
              "1\n10%\n");
    CHECK_STR(completions_split("gpu-dispatch run --gpus sim : 2 --ord", "gpu-dispatch run --gpus sim:2 --ord"),
              "--order\n");
    CHECK_STR(completions_split("gpu-dispatch run --gpus = sim : 2 --ord", "gpu-dispatch run --gpus=sim:2 --ord"),
              "--order\n");
}

TEST(bash_does_not_complete_options_of_a_stream_program)
{
    CHECK_STR(completions("gpu-dispatch run --stream python3 --retr"), "\n");
    CHECK_STR(completions("gpu-dispatch run --worker other.so --retri"), "--retries\n");
}

TEST(bash_completes_the_command_to_run)
{
    CHECK_CONTAINS(completions("gpu-dispatch run --gpus sim:2 gpu-disp"), "gpu-dispatch\n");
    CHECK_CONTAINS(completions("gpu-dispatch run echo ::: fi"), "file.txt\n");
}

TEST(zsh_parses_its_completion)
{
    need("zsh");
    CHECK_PRINTS(sh("zsh -n $GD_SOURCE_ROOT/completions/_gpu-dispatch"), "");
}

TEST_MAIN()
