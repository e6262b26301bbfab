/* SPDX-License-Identifier: MIT
 *
 * Where tasks come from.
 */
#include "common.h"

#include <gpu_dispatch/error.h>

#include "base/text/json.h"

TEST(words)
{
    CHECK_PRINTS(sh(RUNK "echo got ::: a 'b c'"), "got a\ngot b c\n");
}

TEST(arguments_without_a_command_are_commands)
{
    CHECK_PRINTS(sh(RUNK "::: 'echo $((1+2))' 'echo b | tr b c'"), "3\nc\n");
}

TEST(lines_of_standard_input)
{
    CHECK_PRINTS(sh("printf 'a\\nb c\\n\\nlast' | " RUNK "echo '[{}]'"), "[a]\n[b c]\n[]\n[last]\n");
}

TEST(blank_lines_can_be_left_out)
{
    CHECK_PRINTS(sh("printf 'a\\n\\n  \\nb\\n' | " RUNK "-r echo '[{}]'"), "[a]\n[b]\n");
}

TEST(records_with_nul)
{
    CHECK_PRINTS(sh("printf 'a\\nb\\0c\\0' | " RUNK "-0 echo '[{}]'"), "[a\nb]\n[c]\n");
}

TEST(files_of_lines)
{
    CHECK_PRINTS(sh("printf '1\\n2\\n' > f; " RUNK "-a f echo && " RUNK "echo :::: f && " RUNK "--arg-file=f echo"),
                 "1\n2\n1\n2\n1\n2\n");
}

TEST(standard_input_as_a_file)
{
    CHECK_PRINTS(sh("printf '1\\n2\\n' | " RUNK "-a - echo {1}{2} ::: x y"), "1x\n1y\n2x\n2y\n");
}

TEST(files_are_paired_line_by_line)
{
    CHECK_PRINTS(sh("printf '1\\n2\\n' > f; printf 'x\\ny\\n' > g; " RUNK "echo {1}{2} :::: f ::::+ g"), "1x\n2y\n");
}

TEST(json_lines_are_kept_as_they_are)
{
    CHECK_PRINTS(sh("printf '{\"a\": 1}\\n\\n[2]\\n' | " RUNK "--jsonl echo"), "{\"a\": 1}\n[2]\n");
}

/* The first task waits until the input was read to its end. Blank lines are skipped, but they do not fit into the pipe
 * and the buffers, so the lines before them have been read when they are written. */
TEST(json_lines_with_priorities)
{
    CHECK_PRINTS(
        sh("mkfifo gate; { printf '%%s\\n' '{\"first\":1,\"gpu_dispatch\":{\"priority\":3}}' '\"normal\"' "
           "'{\"gpu_dispatch\":{\"priority\":-1}}' '{\"gpu_dispatch\":{\"priority\":2}}'; "
           "head -c 1000000 /dev/zero | tr '\\0' '\\n'; echo > gate; } | gpu-dispatch run --gpus sim:1 --quiet "
           "--jsonl 'case {} in *first*) read x < gate;; *) echo {};; esac'"),
        "{\"gpu_dispatch\":{\"priority\":2}}\n\"normal\"\n{\"gpu_dispatch\":{\"priority\":-1}}\n");
}

TEST(json_lines_with_time_limits)
{
    struct ran r = sh("printf '%%s\\n' '{\"gpu_dispatch\":{\"timeout\":0.2}}' '\"other\"' | " RUNK
                      "--jsonl 'case {} in *timeout*) exec sleep 1000;; esac; echo {}'");
    CHECK_EQ(r.status, 1);
    CHECK_STR(r.out, "\"other\"\n");
    static const char words[] = "timed out after ";
    CHECK_CONTAINS(r.err, words);
    CHECK(strtod(strstr(r.err, words) + sizeof words - 1, NULL) >= 0.2); /* the measured time */
}

/* The lines before the bad line are processed, and the error message has the number of the bad line. */
TEST(json_lines_with_bad_settings)
{
    static const struct {
        const char *settings, *why;
    } bad[] = {
        { "{\"priority\":9}", "priority is 9, but must be a whole number from -4 to 3" },
        { "{\"priority\":-5}", "priority is -5, but must be a whole number" },
        { "{\"priority\":1.5}", "priority is 1.5, but must be a whole number" },
        { "{\"priority\":\"high\"}", "priority is \"high\", but must be a whole number" },
        { "{\"priority\":99999999999999999999}", "priority is 99999999999999999999, but must be a whole number" },
        { "{\"timeout\":0}", "timeout is 0, but must be a number of seconds above 0" },
        { "{\"timeout\":-1}", "timeout is -1, but must be a number of seconds above 0" },
        { "{\"timeout\":\"soon\"}", "timeout is \"soon\", but must be a number of seconds above 0" },
        { "{\"timeout\":[1]}", "timeout is [1], but must be a number of seconds above 0" },
        { "{\"timeout\":\"1\\u0000\"}", "timeout is \"1\\u0000\", but must be" },
        { "{\"prority\":1}",
          "\"gpu_dispatch\" is {\"prority\":1}, but may only have the members priority and timeout" },
        { "{\"priority\":1,\"priority\":2}", "\"gpu_dispatch\" has a member twice" },
        { "2", "\"gpu_dispatch\" is 2, but must be an object" },
        { "{},\"gpu_dispatch\":{}", "the member \"gpu_dispatch\" occurs twice" },
    };
    for (size_t i = 0; i < 2 * sizeof bad / sizeof *bad; i++) {
        const bool shuffled = i % 2; /* then the whole input is read first, and nothing is run */
        struct ran r = sh("printf '%%s\\n' '1' '' '{\"gpu_dispatch\":%s}' '4' | " RUNK "--jsonl %s echo",
                          bad[i / 2].settings, shuffled ? "--shuf" : "");
        CHECK_EQ(r.status, 255);
        CHECK_CONTAINS(r.err, "line 3 of standard input: ");
        CHECK_CONTAINS(r.err, bad[i / 2].why);
        CHECK_STR(r.out, shuffled ? "" : "1\n");
    }
}

#define FILES                                                                                                       \
    "mkdir -p d/sub; printf 1 > d/small.wav; printf 12345 > d/large.wav; printf 123 > d/mid.txt; printf 1234567 > " \
    "d/sub/deep.wav; "

TEST(files_of_a_directory_largest_first)
{
    CHECK_PRINTS(sh(FILES RUNK "--input-dir d echo"), "d/large.wav\nd/mid.txt\nd/small.wav\n");
}

TEST(files_that_match)
{
    CHECK_PRINTS(sh(FILES RUNK "--input-dir d --pattern '*.wav' echo"), "d/large.wav\nd/small.wav\n");
}

TEST(files_that_match_one_of_several)
{
    CHECK_PRINTS(sh(FILES RUNK "--input-dir d --pattern 's*' --pattern '*.txt' echo"), "d/mid.txt\nd/small.wav\n");
}

TEST(files_in_subdirectories)
{
    CHECK_PRINTS(sh(FILES RUNK "--input-dir d --recursive --pattern '*.wav' echo"),
                 "d/sub/deep.wav\nd/large.wav\nd/small.wav\n");
}

TEST(files_by_name)
{
    CHECK_PRINTS(sh(FILES RUNK "--input-dir d --order name echo"), "d/large.wav\nd/mid.txt\nd/small.wav\n");
}

TEST(files_in_no_particular_order)
{
    CHECK_PRINTS(sh(FILES RUN "--input-dir d --order none echo | sort"), "d/large.wav\nd/mid.txt\nd/small.wav\n");
}

TEST(the_summary_counts_files)
{
    CHECK_CONTAINS(sh(FILES "gpu-dispatch run --gpus sim:2 --input-dir d true").err, "3 files in ");
}

TEST(a_random_order_is_the_same_for_a_seed)
{
    struct ran a = sh("seq 50 | " RUNK "--shuf --seed 7 echo"), b = sh("seq 50 | " RUNK "--shuf --seed 7 echo");
    CHECK_STR(a.out, b.out);
    CHECK(strcmp(a.out, sh("seq 50").out) != 0);
    CHECK_STR(sh("seq 50 | " RUNK "--shuf --seed 7 echo | sort -n").out, sh("seq 50").out);
}

TEST(no_input_means_no_task)
{
    CHECK_PRINTS(sh(RUN "echo < /dev/null"), "");
}

TEST(options_end_at_the_command)
{
    CHECK_PRINTS(sh(RUNK "echo -k --tag ::: a"), "-k --tag a\n");
}

TEST(options_end_at_two_dashes)
{
    CHECK_PRINTS(sh(RUNK "-- echo x ::: a"), "x a\n");
}

TEST(letters_may_be_bundled)
{
    CHECK_PRINTS(sh("printf 'a\\0b\\0' | " RUN "-k0j2 echo"), "a\nb\n");
}

TEST(an_endless_stream_takes_no_memory)
{
    /* Two of the tasks print the peak memory of the dispatcher, which is the parent of their worker. */
    struct ran r = sh("cat > look <<'end'\n"
                      "case $1 in 300 | 3000) ;; *) exit 0 ;; esac\n"
                      "p=$(awk '/PPid/ { print $2 }' /proc/$PPID/status)\n"
                      "awk '/VmHWM/ { print $2 }' /proc/$p/status\n"
                      "end\n"
                      "yes | " RUNK "--halt now,done=3000 sh look {#}");
    char *next;
    long early = strtol(r.out, &next, 10), late = strtol(next, NULL, 10);
    CHECK_GT(early, 500);
    CHECK_GE(late, early);
    CHECK_LT(late - early, 1000);
    CHECK_STR(r.err, "gpu-dispatch: 3000 tasks ended, the last one is \"y\": ending the running tasks\n");
}

static void check_json_lines(const char *file)
{
    struct ran r = sh("cat %s", file);
    struct gd__json top;
    for (const char *at = r.out, *end; (end = memchr(at, '\n', r.out_size - (size_t)(at - r.out))); at = end + 1)
        if (gd__json_scan(at, (size_t)(end - at), &top) < 0)
            FAIL("%s: %s: %.200s", file, gd_error_text(), at);
}

/* Bytes that are not UTF-8, overlong forms, surrogates, and characters past U+10FFFF. */
static const char *const no_utf8[] = { "\\377",
                                       "a\\233b",
                                       "\\300\\257",
                                       "\\340\\200\\257",
                                       "\\355\\240\\200",
                                       "\\364\\220\\200\\200",
                                       "\\360\\200\\200\\257",
                                       "\\303" };

/* A program that answers each line with its input. */
#define ECHO_PROGRAM                                                                                              \
    "cat > w.sh <<'end'\n"                                                                                        \
    "echo '{\"ready\":true}'\n"                                                                                   \
    "while read -r line; do i=${line#*:}; echo \"{\\\"id\\\":${i%%,*},\\\"output\\\":${line#*\\\"input\\\":}\"; " \
    "done\n"                                                                                                      \
    "end\n"

TEST(json_lines_that_are_not_utf8)
{
    static const char *const kinds[] = { "--stream sh w.sh", "echo {}" };
    for (size_t i = 0; i < 2 * sizeof no_utf8 / sizeof *no_utf8; i++) {
        struct ran r = sh("rm -f o f; " ECHO_PROGRAM "printf '\"good\"\\n\\n{\"x\":\"%s\"}\\n\"more\"\\n' > in; " RUN
                          "--jsonl -a in --output o --failed f %s",
                          no_utf8[i / 2], kinds[i % 2]);
        CHECK_EQ(r.status, 255);
        CHECK_CONTAINS(r.err, "line 3 of in is not JSON: byte ");
        CHECK_CONTAINS(r.err, "is not UTF-8");
        check_json_lines("o");
        check_json_lines("f");
    }
    struct ran r = sh("printf '\"\\377\"\\n' | " RUN "--jsonl echo");
    CHECK_CONTAINS(r.err, "line 1 of standard input is not JSON");
}

/* Escapes for half of a surrogate pair are valid JSON, and stay unchanged. */
TEST(halves_of_surrogate_pairs)
{
    CHECK_PRINTS(sh(ECHO_PROGRAM "printf '%%s\\n' '{\"x\":\"\\ud800 \\udc9b\"}' > in; " RUN
                                 "--jsonl -a in --output o --stream sh w.sh; sed 's/,\"status.*//' o"),
                 "{\"x\":\"\\ud800 \\udc9b\"}\n{\"id\":0,\"input\":{\"x\":\"\\ud800 \\udc9b\"}\n");
    check_json_lines("o");
}

/* An answer that is not UTF-8 is not JSON. The program has broken the protocol, and its answer is dropped. */
TEST(answers_that_are_not_utf8)
{
    for (size_t i = 0; i < sizeof no_utf8 / sizeof *no_utf8; i++) {
        struct ran r = sh("rm -f o f; cat > w.sh <<'end'\necho '{\"ready\":true}'\nread x\n"
                          "printf '{\"id\":0,\"output\":\"%s\"}\\n'\ncat > /dev/null\nend\n" RUN
                          "--retries 1 --output o --failed f --stream sh w.sh ::: a",
                          no_utf8[i]);
        CHECK_EQ(r.status, 1);
        CHECK_STR(r.out, "");
        CHECK_CONTAINS(r.err, "not UTF-8");
        check_json_lines("o");
        check_json_lines("f");
    }
}

/* Plain lines may have any bytes. In JSON, a byte that is not UTF-8 is \udc80 to \udcff, and is read back as that byte.
 */
TEST(plain_lines_of_any_bytes_come_back)
{
    struct ran r = sh("for i in $(seq 128 255); do printf \"x\\\\$(printf %%o $i)y\\n\"; done > in; "
                      "printf '\\300\\257\\355\\240\\200\\302\\233\\342\\200\\256\\t\\001\\n' >> in; " RUN
                      "-a in --output o --failed f 'exit 1; : {}'; " RUNK "--jsonl -a f printf '%%s\\\\n' {} > back; "
                      "sort in > a; sort back > b; cmp a b && wc -l < back");
    CHECK_STR(r.out, "129\n");
    check_json_lines("o");
    check_json_lines("f");
}

TEST(from_a_terminal)
{
    const int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    CHECK(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
    CHECK_EQ(write(master, "a\n\4", 3), 3); /* Ctrl-D */
    struct ran r = sh(RUN "echo < %s", ptsname(master));
    CHECK_STR(r.out, "a\n");
    CHECK_CONTAINS(r.err, "reading inputs from the terminal");
    CHECK_EQ(count_lines(r.err), 1);
    CHECK_EQ(r.status, 0);
    close(master);
}

TEST_MAIN()
