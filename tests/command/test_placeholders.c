/* SPDX-License-Identifier: MIT
 *
 * Placeholders and quoting, checked against GNU parallel on the same inputs.
 */
#include "common.h"

/* Inputs with characters that are special in a shell, one per line. */
#define HARD                                                                                                     \
    "printf '%%s\\n' 'a b' \"it's\" 'say \"x\"' 'back\\slash' '$HOME' '`id`' '$(id)' '*' '?' '[a]' '~' '~root' " \
    "'#no' 'a;b' 'a&b' 'a|b' '(x)' '{x}' '<in' '>out' '!bang' 'a=b' '-n' '--' ' lead' 'trail ' 'tab\tin' '' "    \
    "'caf\xc3\xa9' '%%s' '^' 'a,b' '{}' '{.}' > in; "

TEST(every_placeholder_of_a_path)
{
    same_as_parallel("",
                     "echo '{} {.} {/} {//} {/.} {#}' ::: a.b dir/song.wav /abs/x.tar.gz noext ./here.txt d.d/file /");
}

TEST(hard_inputs)
{
    same_as_parallel(HARD, "printf '\"<%%s>\\n\"' {} < in");
}

TEST(hard_inputs_in_every_form)
{
    same_as_parallel(HARD, "printf '\"<%%s>\\n\"' {.} {/} {//} {/.} x{}y < in");
}

TEST(an_input_is_added_if_there_is_no_placeholder)
{
    same_as_parallel("", "echo before ::: 'a  b' c");
}

TEST(a_number_counts_as_a_placeholder)
{
    same_as_parallel("", "echo {#} ::: x y");
}

TEST(several_arguments)
{
    same_as_parallel("", "echo {2} {1} {1.} {2/} ::: a.x b.y ::: d/1 2");
}

TEST(several_arguments_at_once)
{
    same_as_parallel("", "echo {} ::: a 'b c' ::: 1 2");
}

TEST(linked_arguments)
{
    same_as_parallel("", "echo {1}-{2} ::: a b c :::+ 1 2 3");
}

TEST(a_shell_sees_the_words)
{
    same_as_parallel("", "'echo {} | tr a-z A-Z; x={}; echo $x ${#x}' ::: abc 'd e'");
}

TEST(quoted_words)
{
    same_as_parallel("", "-q echo '$HOME  {} *' '\"q\"' ::: a 'b  c'");
}

TEST(names_with_newlines)
{
    same_as_parallel("printf 'one\\ntwo\\0three\\0' > in; ", "-0 printf '\"<%%s>\\n\"' {} {.} < in");
}

TEST(names_that_are_not_text)
{
    same_as_parallel("printf 'bad\\xff\\xfe.wav\\0\\x80\\0' > in; ", "-0 printf '\"<%%s>\\n\"' {} {.} {/.} < in");
}

TEST(dry_run_shows_the_same_lines)
{
    same_as_parallel(HARD, "--dry-run cat {} '>' {.}.out < in");
}

TEST(dry_run_of_names_that_are_not_text)
{
    same_as_parallel("printf 'bad\\xff.wav\\0two\\nlines\\0' > in; ", "-0 --dry-run cat {} < in");
}

TEST(the_gpu_is_one_of_those_requested)
{
    struct ran r = sh(RUN "'echo {gpu} #' ::: 1 2 3 4 5 6 7 8 | sort -u");
    CHECK_STR(r.err, "");
    CHECK(strcmp(r.out, "0\n1\n") == 0 || strcmp(r.out, "0\n") == 0 || strcmp(r.out, "1\n") == 0);
}

TEST(the_slot_is_the_worker_from_one)
{
    CHECK_PRINTS(sh("gpu-dispatch run --gpus sim:1 --quiet echo {%%} ::: a b"), "1\n1\n");
}

TEST(two_at_once_have_two_slots)
{
    /* Each task waits for the other, so they end only if both run at the same time. */
    CHECK_PRINTS(sh("mkfifo a b; " RUN
                    "'if [ {} = 1 ]; then echo x > a; read -r y < b; else read -r y < a; echo x > b; fi; "
                    "echo {%%}' ::: 1 2 | sort"),
                 "1\n2\n");
}

TEST_MAIN()
