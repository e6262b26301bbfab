/* SPDX-License-Identifier: MIT
 *
 * Command templates: placeholders and quoting. Tables give the expected lines. If GNU parallel is installed, its lines
 * (`parallel --dry-run`) and the output of its jobs must be the same as ours, byte for byte.
 */
#include "base/fault.h"
#include "unit/command/template_fixture.h"

static char *line_of(const struct gd_command *c, const char *payload, size_t size)
{
    const struct gd_command_fill with = filled(payload, size);
    char *line = gd_command_line(c, &with);
    CHECK(line != NULL);
    return line;
}

static void expect_line(struct gd_command_spec spec, const char *payload, size_t size, const char *line)
{
    struct gd_command *c = open_spec(spec);
    char *got = line_of(c, payload, size);
    CHECK_STR(got, line);
    gd_command_free(got);
    gd_command_close(&c);
    CHECK(c == NULL);
}

#define LINE(payload, line, ...) \
    expect_line((struct gd_command_spec){ .words = WORDS(__VA_ARGS__) }, payload, sizeof(payload) - 1, line)
#define QUOTED_LINE(payload, line, ...)                                                                               \
    expect_line((struct gd_command_spec){ .words = WORDS(__VA_ARGS__), .quote = true }, payload, sizeof(payload) - 1, \
                line)

/* ---- placeholders ---- */

TEST(the_input_and_its_parts)
{
    LINE("d/a.b.wav", "echo d/a.b.wav d/a.b a.b.wav d a.b", "echo", "{}", "{.}", "{/}", "{//}", "{/.}");
    LINE("x", "echo x x x . x", "echo", "{}", "{.}", "{/}", "{//}", "{/.}");
    LINE("x", "echo -x- xx", "echo", "-{}-", "{}{}");
}

TEST(extensions_and_dots)
{
    LINE("d.x/f", "p d.x/f f", "p", "{.}", "{/.}");
    LINE(".hidden", "p '' ''", "p", "{.}", "{/.}");
    LINE("d/.hidden", "p d/ ''", "p", "{.}", "{/.}");
    LINE("a.", "p a", "p", "{.}");
    LINE("a.b/", "p a.b/ ''", "p", "{.}", "{/}");
    LINE("", "p '' '' '' . ''", "p", "{}", "{.}", "{/}", "{//}", "{/.}");
}

TEST(directories)
{
    static const char *const table[][2] = { { "/", "/" },       { "//", "/" },   { "/a", "/" },  { "a/", "." },
                                            { "a/b/", "a" },    { "a//b", "a" }, { "a//", "." }, { "/a/b//", "/a" },
                                            { "a/b/c", "a/b" }, { "./a", "." },  { "//a", "/" }, { ".", "." } };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        char line[64];
        snprintf(line, sizeof line, "p %s", table[i][1]);
        expect_line((struct gd_command_spec){ .words = WORDS("p", "{//}") }, table[i][0], strlen(table[i][0]), line);
    }
}

TEST(numbers)
{
    LINE("x", "p 7 3 5 x", "p", "{#}", "{%}", "{gpu}", "{}");
}

static void expect_gpus(size_t n, const char *line)
{
    static const int gpus[33] = { 0, 3, -5 };
    struct gd_command *c = open_words(WORDS("p{gpu}", "x{gpu}", "{}"));
    struct gd_command_fill with = filled("a", 1);
    with.gpu_ids = gpus;
    with.n_gpus = n;
    char *got = gd_command_line(c, &with);
    if (line)
        CHECK_STR(got, line);
    else
        CHECK(!got);
    gd_command_free(got);
    gd_command_close(&c);
}

TEST(several_gpus)
{
    expect_gpus(0, "p5 x5 a");
    expect_gpus(1, "p0 x0 a");
    expect_gpus(3, "p'0,3,-5' x'0,3,-5' a");
    expect_gpus(32, "p'0,3,-5,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0' "
                    "x'0,3,-5,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0' a");
    expect_gpus(33, NULL);
    CHECK_CONTAINS(gd_error_text(), "n_gpus is 33");
}

TEST(arguments_by_number)
{
    LINE("a.b\0c/d.e", "p c/d.e c/d d.e c d a", "p", "{2}", "{2.}", "{2/}", "{2//}", "{2/.}", "{1.}");
    LINE("a\0b", "p b a", "p", "{-1}", "{-2}");
    LINE("a\0b", "p a b", "p", "{0}");
    LINE("a\0b", "p b a ", "p", "{-3}", "{-4}", "{-5}");
    LINE("a.x", "p a", "p", "{1 .}");
    LINE("a", "p ", "p", "{2}");
    LINE("a", "p ", "p", "{9999999999999999999}");
}

TEST(several_arguments)
{
    LINE("a b\0c", "p 'a b' c", "p", "{}");
    LINE("a b\0c", "p x'a b' cy", "p", "x{}y");
    LINE("a.b\0c/d.e", "p a c/da.b d.e", "p", "{.}{/}");
    LINE("a\0", "p a ''", "p", "{}");
}

TEST(the_input_is_added_at_the_end)
{
    LINE("a b", "echo 'a b'", "echo");
    LINE("a\0b", "echo -n a b", "echo -n");
    LINE("a", "echo 5 a", "echo", "{gpu}");
    LINE("a", "echo 7", "echo", "{#}");
    LINE("a", "echo 3", "echo", "{%}");
    LINE("a b", " 'a b'", "");
}

TEST(other_braces_are_kept)
{
    LINE("a", "p {a} {x} {a a} {..} {///} $a {gpu {# {- {-} {1x} {1", "p", "{{}} {x} {{} {}}", "{..} {///} ${}",
         "{gpu {# {- {-} {1x} {1");
}

TEST(the_command_as_input_is_not_quoted)
{
    LINE("echo a; echo b", "echo a; echo b", "{}");
    LINE("echo a", "echo a x", "{} x");
    LINE("a b", "runa b a b", "run{}", "{}");
    LINE("a b", "A='a b' run", "A={} run");
    LINE("a b", "run5 'a b'", "run{gpu}", "{}");
    expect_line((struct gd_command_spec){ .words = (const char *const[]){ NULL } }, "a b", 3, "a b");
}

/* ---- quoting ---- */

TEST(quoting)
{
    LINE("a b", "p 'a b'", "p");
    LINE("it's", "p 'it'\"'\"'s'", "p");
    LINE("'", "p \"'\"", "p");
    LINE("''", "p \"'\"''\"'\"", "p");
    LINE("'a'", "p \"'\"'a'\"'\"", "p");
    LINE("$HOME `x` *", "p '$HOME `x` *'", "p");
    LINE("a\nb", "p 'a\nb'", "p");
    LINE("\xff\x80", "p '\xff\x80'", "p");
    LINE("-x", "p -x", "p");
    LINE("a_b-c.d+e/f9", "p a_b-c.d+e/f9", "p");
    LINE("~", "p '~'", "p");
    LINE("a=b", "p 'a=b'", "p");
}

TEST(words_as_the_shell_splits_them)
{
    LINE("a b", "echo $HOME | cat > 'a b'.x", "echo $HOME |", "cat > {}.x");
}

TEST(words_quoted)
{
    QUOTED_LINE("a b", "p '$x' 'a b.c' '' 'e f'", "p", "$x", "{}.c", "", "e f");
    QUOTED_LINE("a b\0c", "p 'xa b' cy", "p", "x{}y");
    QUOTED_LINE("a", "p ''", "p", "{2}");
    QUOTED_LINE("a b", "'a b'", "{}");
}

/* ---- refused ---- */

TEST(bad_specs)
{
    struct gd_command *c = NULL;
    struct gd_command_spec spec = { .size = sizeof spec };
    CHECK_EQ(gd_command_open(&c, NULL), GD_E_INVALID);
    CHECK_EQ(gd_command_open(&c, &spec), GD_E_INVALID);
    CHECK_CONTAINS(gd_error_text(), "words");
    spec.words = WORDS("p {= s/a/b/ =}");
    CHECK_EQ(gd_command_open(&c, &spec), GD_E_UNSUPPORTED);
    spec.size = 0;
    CHECK_EQ(gd_command_open(&c, &spec), GD_E_INVALID);
    CHECK(c == NULL);
    gd_command_close(&c);
}

TEST(a_spec_of_another_version)
{
    struct {
        struct gd_command_spec spec;
        long more;
    } newer = { .spec = { .words = WORDS("p") } };
    struct gd_command *c;
    newer.spec.size = sizeof newer;
    CHECK_EQ(gd_command_open(&c, &newer.spec), 0);
    gd_command_close(&c);
    newer.more = 1;
    CHECK_EQ(gd_command_open(&c, &newer.spec), GD_E_VERSION);
    newer.spec.size = offsetof(struct gd_command_spec, shell); /* a shorter struct of an older version */
    newer.spec.quote = true;
    CHECK_EQ(gd_command_open(&c, &newer.spec), 0);
    CHECK(!c->quote);
    gd_command_close(&c);
}

TEST(which_shell)
{
    struct gd_command *c = open_spec((struct gd_command_spec){ .words = WORDS("p"), .shell = "/x/sh" });
    CHECK_STR(c->shell, "/x/sh");
    gd_command_close(&c);
    static const char *const table[][3] = {
        { "/p", "/s", "/p" }, { NULL, "/s", "/s" }, { "", "/s", "/s" }, { NULL, NULL, "/bin/sh" }
    };
    for (size_t i = 0; i < 4; i++) {
        unsetenv("PARALLEL_SHELL");
        unsetenv("SHELL");
        if (table[i][0])
            setenv("PARALLEL_SHELL", table[i][0], 1);
        if (table[i][1])
            setenv("SHELL", table[i][1], 1);
        c = open_spec((struct gd_command_spec){ .words = WORDS("p") });
        CHECK_STR(c->shell, table[i][2]);
        gd_command_close(&c);
    }
}

TEST(no_memory_at_any_moment)
{
    const struct gd_command_fill with = filled("a b\0c", 5);
    const struct gd_command_spec spec = { .size = sizeof spec, .words = WORDS("p", "{}", "{/.}x"), .quote = true };
    unsigned long n = 0;
    for (bool through = false; !through;) {
        struct gd_command *c = NULL;
        struct gd__filling f = { 0 };
        gd__fault_begin(++n);
        int code = gd_command_open(&c, &spec);
        if (code == 0)
            code = gd__command_fill_argv(c, &with, &f);
        if (code == 0)
            code = gd__command_fill_line(c, &with, &f);
        char **argv = code == 0 ? gd_command_worker(&spec) : NULL;
        gd__fault_begin(0);
        through = code == 0 && argv;
        CHECK(through || gd_error_text()[0]);
        CHECK(code == 0 || code == GD_E_NO_MEMORY);
        gd_argv_free(argv);
        gd__filling_free(&f);
        gd_command_close(&c);
    }
    CHECK_GE(n, 10);
}

/* ---- words without a shell ---- */

static void expect_argv(struct gd_command_spec spec, const char *payload, size_t size, const char *const *words)
{
    struct gd_command *c = open_spec(spec);
    struct gd__filling f = { 0 };
    const struct gd_command_fill with = filled(payload, size);
    for (int again = 0; again < 2; again++) {
        CHECK_EQ(gd__command_fill_argv(c, &with, &f), 0);
        size_t i = 0;
        for (; words[i]; i++)
            CHECK_STR(f.argv[i], words[i]);
        CHECK(f.argv[i] == NULL);
        CHECK_EQ(f.n_argv, i);
    }
    gd__filling_free(&f);
    gd_command_close(&c);
}

TEST(words_without_a_shell)
{
    expect_argv((struct gd_command_spec){ .words = WORDS(" p  a\tb", "x={}", "{2}", "", "{3}") }, "i j\0", 4,
                WORDS("p", "a", "b", "x=i j", "", ""));
    expect_argv((struct gd_command_spec){ .words = WORDS(" p", "", "{3}", "{}x"), .quote = true }, "i\0j", 3,
                WORDS(" p", "", "", "i", "jx"));
}

/* ---- against GNU parallel ---- */

static const char *const inputs[] = {
    "plain",     "a b",       "  two  ",
    "it's",      "'",         "''",
    "'a'b'",     "\"dq\"",    "$HOME",
    "`ls`",      "$(ls)",     "*",
    "?",         "[a]",       "~",
    "~root",     "!x",        "#x",
    "a#b",       "a;b",       "a&b",
    "a|b",       "<a>",       "(a)",
    "{a,b}",     "a\\b",      "\\",
    "\\n",       "a\tb",      "a\nb",
    "\n",        "a\n",       "\na",
    "a\n\nb",    "-n",        "--help",
    "-",         "=",         "a=b",
    "%",         "\xff\xfe",  "caf\xc3\xa9",
    "\xe9.wav",  "",          ".",
    "..",        "/",         "//",
    "a/",        "a/b/",      "a//b",
    "/a",        "/a/b.c",    "a.b/c",
    "a.b/c.d.e", ".hidden",   "d/.hidden",
    ".a.b",      "a.",        "a..b",
    "d.x/",      "d/a b.c d", "./x",
    "a\nb/c.d",  "a/b\nc",    "a/b\nc/d.e",
    "a.b\n",     "a\n/",      "x'y\"z $w.t*",
    "\x01\x7f",  "{}",        "{/}",
    "a,b",       "a:b@c",     "^a",
    "a~b",       "x\r",       "0",
    "\xa0",      "a\nb.c\nd",
};
enum { N_INPUTS = sizeof inputs / sizeof inputs[0] };

static void need_parallel(void)
{
    if (sh("parallel --version").status != 0)
        SKIP("GNU parallel is not installed");
    setenv("HOME", sh_dir(), 1);
    setenv("PARALLEL_SHELL", "/bin/bash", 1);
    unsetenv("PARALLEL");
}

/* Writes `per` files of inputs, with a NUL after each input. Task i has one argument from each file. */
static void write_inputs(size_t per)
{
    for (size_t k = 0; k < per; k++) {
        char path[128];
        snprintf(path, sizeof path, "%s/inputs%zu", sh_dir(), k);
        FILE *f = fopen(path, "we");
        CHECK(f != NULL);
        for (size_t i = 0; i < N_INPUTS / per; i++) {
            const char *input = inputs[i * per + k];
            CHECK_EQ(fwrite(input, 1, strlen(input) + 1, f), strlen(input) + 1);
        }
        CHECK_EQ(fclose(f), 0);
    }
}

static struct ran real_parallel(const char *options, const char *const *words, size_t per)
{
    char script[1024];
    int at = snprintf(script, sizeof script, "parallel --will-cite -k -j1 -0 --link %s", options);
    write_inputs(per);
    for (size_t k = 0; k < per; k++)
        at += snprintf(script + at, sizeof script - (size_t)at, " -a inputs%zu", k);
    for (int i = 0; words[i]; i++) {
        char name[16];
        snprintf(name, sizeof name, "W%d", i);
        setenv(name, words[i], 1);
        at += snprintf(script + at, sizeof script - (size_t)at, " \"$%s\"", name);
    }
    return sh("%s", script);
}

/* Gets the arguments of task i. Returns false after the last task. */
static bool payload_of(size_t i, size_t per, char *payload, size_t *size)
{
    *size = 0;
    if (i >= N_INPUTS / per)
        return false;
    for (size_t k = i * per; k < (i + 1) * per; k++) {
        const size_t length = strlen(inputs[k]) + 1;
        memcpy(payload + *size, inputs[k], length);
        *size += length;
    }
    --*size; /* no NUL after the last argument */
    return true;
}

static struct gd__text our_lines(const char *const *words, bool quote, size_t per)
{
    struct gd_command *c = open_spec((struct gd_command_spec){ .words = words, .quote = quote });
    struct gd__text all = { 0 };
    char payload[4096];
    size_t size;
    for (size_t i = 0; payload_of(i, per, payload, &size); i++) {
        const struct gd_command_fill with = {
            .size = sizeof(struct gd_command_fill), .payload = payload, .payload_size = size, .task_id = i, .slot = 1
        };
        char *line = gd_command_line(c, &with);
        gd__text_put(&all, line, strlen(line));
        gd__text_put(&all, "\n", 1);
        gd_command_free(line);
    }
    gd_command_close(&c);
    return all;
}

static void same_lines(const char *const *words, bool quote, size_t per)
{
    struct ran real = real_parallel(quote ? "--dry-run -q" : "--dry-run", words, per);
    struct gd__text ours = our_lines(words, quote, per);
    size_t same = 0;
    while (same < real.out_size && same < ours.size && real.out[same] == ours.bytes[same])
        same++;
    gd__text_put(&ours, "", 1);
    const size_t from = same > 30 ? same - 30 : 0;
    if (same != real.out_size || same + 1 != ours.size)
        FAIL("%s: theirs ...%.60s, ours ...%.60s (%s)", words[0], real.out + from, ours.bytes + from, real.err);
    gd__text_free(&ours);
}

TEST(lines_are_the_same_as_those_of_gnu_parallel)
{
    need_parallel();
    same_lines(WORDS("echo", "{}", "{.}|{/}|{//}|{/.}|{#}|{%}"), false, 1);
    same_lines(WORDS("echo"), false, 1);
    same_lines(WORDS("echo 1 {#}"), false, 1);
    same_lines(WORDS("{} x"), false, 1);
    same_lines(WORDS("A={.} {}x"), false, 1);
    same_lines(WORDS("a b", "{ {} } {{/}} {x}{", "{1}{1 .}{2}{-1/}"), false, 1);
}

TEST(lines_of_several_arguments)
{
    need_parallel();
    same_lines(WORDS("echo", "x{}y {.}{/}", "{2}{1.}{3//}{-1}{-3/.}{4}{0}"), false, 3);
    same_lines(WORDS("echo", "x{}y", "", "{2}{1.}{9} $x"), true, 3);
    same_lines(WORDS("run{2} {}"), false, 2);
}

TEST(quoted_lines_are_the_same_as_those_of_gnu_parallel)
{
    need_parallel();
    same_lines(WORDS("e c", "{}.x y", "$a", "", "'{/}'", "*"), true, 1);
    same_lines(WORDS("{}"), true, 1);
}

/* Runs our lines in a shell. They must print the same as the jobs of GNU parallel. */
static void same_output(const char *const *words, bool quote)
{
    struct ran real = real_parallel(quote ? "-q" : "", words, 1);
    struct gd_command *c = open_spec((struct gd_command_spec){ .words = words, .quote = quote });
    struct gd__text script = { 0 };
    for (size_t i = 0; i < N_INPUTS; i++) {
        const struct gd_command_fill with = { .size = sizeof(struct gd_command_fill),
                                              .payload = inputs[i],
                                              .payload_size = strlen(inputs[i]),
                                              .task_id = i,
                                              .slot = 1 };
        char *line = gd_command_line(c, &with);
        gd__text_put(&script, line, strlen(line));
        gd__text_put(&script, "\n", 1);
        gd_command_free(line);
    }
    gd__text_put(&script, "", 1);
    struct ran ours = sh("%s", script.bytes);
    CHECK_EQ(real.status, 0);
    CHECK_EQ(ours.out_size, real.out_size);
    CHECK_MEM(ours.out, real.out, real.out_size);
    gd__text_free(&script);
    gd_command_close(&c);
}

TEST(real_runs_print_the_same_as_gnu_parallel)
{
    need_parallel();
    same_output(WORDS("printf '<%s>\\n'", "{}", "{.}", "{/}", "{//}", "{/.}"), false);
    same_output(WORDS("printf", "<%s>\\n", "{} x", "$y {/}"), true);
}

/* The words made without a shell are the same as the words that a shell makes from the line. */
TEST(without_a_shell_the_words_are_the_same)
{
    struct gd_command *c = open_words(WORDS("printf", "%s@", "{}", "x{.}=y", "{/} {2}{//}", "{3}"));
    struct gd__filling f = { 0 };
    for (size_t i = 0; i < N_INPUTS; i++) {
        const struct gd_command_fill with = filled(inputs[i], strlen(inputs[i]));
        CHECK_EQ(gd__command_fill_argv(c, &with, &f), 0);
        struct gd__text plain = { 0 };
        for (size_t k = 2; k < f.n_argv; k++) {
            gd__text_put(&plain, f.argv[k], strlen(f.argv[k]));
            gd__text_put(&plain, "@", 1);
        }
        char *line = line_of(c, inputs[i], strlen(inputs[i]));
        struct ran shell = sh("%s", line);
        CHECK_EQ(shell.out_size, plain.size);
        CHECK(plain.bytes != NULL);
        CHECK_MEM(shell.out, plain.bytes, plain.size);
        gd__text_free(&plain);
        gd_command_free(line);
    }
    gd__filling_free(&f);
    gd_command_close(&c);
}

TEST_MAIN()
