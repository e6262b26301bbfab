/* SPDX-License-Identifier: MIT
 *
 * Whether the first word of a command is a program, which commands need no shell, and how workers for commands are
 * started.
 */
#include <sys/stat.h>

#include "unit/command/template_fixture.h"

static bool needs_shell(const char *const *words, bool quote, const char *shell)
{
    static struct gd__executable p;
    struct gd_command *c = open_spec((struct gd_command_spec){ .words = words, .quote = quote, .shell = shell });
    gd__executable_find(&p, c);
    gd_command_close(&c);
    return !*p.path;
}

TEST(programs_need_no_shell)
{
    no_start_up_file();
    CHECK(!needs_shell(WORDS("sleep", "{}"), false, "/bin/sh"));
    CHECK(!needs_shell(WORDS("/bin/cat", "--x=y", "{/}.z"), false, "/bin/bash"));
    CHECK(!needs_shell(WORDS("  cat {}"), false, "bash"));
    CHECK(!needs_shell(WORDS("true"), false, "/bin/dash"));
    CHECK(!needs_shell(WORDS("cat", "$x ; *"), true, "/bin/sh"));
}

TEST(commands_that_only_a_shell_knows)
{
    static const char *const table[] = { "cd",
                                         "exec sleep",
                                         "export A",
                                         "if",
                                         ".",
                                         "eval",
                                         "time sleep",
                                         "ulimit -n",
                                         "[",
                                         "test",
                                         "printf",
                                         "kill",
                                         "no_such_xy",
                                         "A=b sleep",
                                         "{}",
                                         "sleep{}",
                                         "sleep $A",
                                         "sleep *",
                                         "sleep > x",
                                         "sleep | cat",
                                         "sleep ~",
                                         "sleep 'a'",
                                         "sleep \"a\"",
                                         "sleep a\\ b",
                                         "sleep ; ls",
                                         "sleep & ",
                                         "(sleep)",
                                         "sleep # x",
                                         "! sleep",
                                         "sleep a?",
                                         "sleep [a]",
                                         "sleep {a,b}",
                                         "sleep\nls",
                                         "%sleep",
                                         "sleep ^a",
                                         "/tmp",
                                         "/nonexistent",
                                         "sleep \xc2\xa0",
                                         "pwd",
                                         "`ls`",
                                         "=sleep",
                                         "",
                                         " " };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        if (!needs_shell(WORDS(table[i]), false, "/bin/bash"))
            FAIL("\"%s\" was run without a shell", table[i]);
    }
    CHECK(needs_shell(WORDS("sleep 1"), true, "/bin/bash"));
    CHECK(needs_shell(WORDS("if"), true, "/bin/bash"));
}

TEST(a_job_number_is_not_a_program)
{
    CHECK_EQ(chdir(sh_dir()), 0);
    fclose(fopen("%1", "we"));
    CHECK_EQ(chmod("%1", 0755), 0);
    setenv("PATH", sh_dir(), 1);
    CHECK(needs_shell(WORDS("%1"), false, "/bin/bash"));
}

TEST(shells_that_may_replace_programs_by_functions)
{
    no_start_up_file();
    CHECK(needs_shell(WORDS("sleep"), false, "/bin/zsh"));
    CHECK(needs_shell(WORDS("true"), false, "/usr/bin/python3"));
    setenv("BASH_FUNC_sleep%%", "() { :; }", 1);
    CHECK(needs_shell(WORDS("sleep"), false, "/bin/bash"));
    CHECK(!needs_shell(WORDS("cat"), false, "/bin/bash"));
    setenv("BASH_FUNC_true%%", "() { false; }", 1);
    CHECK(needs_shell(WORDS("true"), false, "/bin/bash"));
    setenv("BASH_ENV", "/x", 1);
    CHECK(needs_shell(WORDS("cat"), false, "/bin/bash"));
    CHECK(needs_shell(WORDS("echo"), false, "/bin/bash"));
}

TEST(a_program_that_is_also_a_shell_builtin)
{
    no_start_up_file();
    static struct gd__executable p;
    struct gd_command *c = open_words(WORDS("echo"));
    gd__executable_find(&p, c);
    CHECK(p.builtin && *p.path);
    static char echo[] = "echo", plain[] = "a", option[] = "-e", escape[] = "a\\tb";
    CHECK(gd__executable_agrees(&p, (char *[]){ echo, plain, plain, NULL }));
    CHECK(!gd__executable_agrees(&p, (char *[]){ echo, plain, option, NULL }));
    CHECK(!gd__executable_agrees(&p, (char *[]){ echo, escape, NULL }));
    gd_command_close(&c);
}

/* ---- gd_command_check ---- */

static int check_words(const char *const *words)
{
    struct gd_command *c = open_words(words);
    int code = gd_command_check(c);
    gd_command_close(&c);
    return code;
}

TEST(commands_that_can_be_run)
{
    CHECK_EQ(check_words(WORDS("cat")), 0);
    CHECK_EQ(check_words(WORDS("cd", "{}")), 0);
    CHECK_EQ(check_words(WORDS("/bin/cat {} | x")), 0);
    CHECK_EQ(check_words(WORDS("{}")), 0);
    CHECK_EQ(check_words(WORDS("no_such_command_xy{}")), 0);
    CHECK_EQ(check_words(WORDS("A=b no_such_command_xy")), 0);
    CHECK_EQ(check_words(WORDS("f() { echo; }; f")), 0);
    CHECK_EQ(check_words(WORDS("no_such_command_xy || true")), 0);
    CHECK_EQ(check_words(WORDS("'no such'")), 0);
    setenv("BASH_FUNC_no_such_command_xy%%", "() { :; }", 1);
    CHECK_EQ(check_words(WORDS("no_such_command_xy")), 0);
}

static void expect_not(const char *word, const char *text)
{
    CHECK_EQ(check_words(WORDS(word, "{}")), GD_E_INVALID);
    CHECK_CONTAINS(gd_error_text(), text);
}

TEST(commands_that_cannot_be_run)
{
    no_start_up_file();
    char path[128];
    snprintf(path, sizeof path, "%s/tool", sh_dir());
    fclose(fopen(path, "we"));
    expect_not("no_such_command_xy", "command not found: no_such_command_xy (it is not in PATH)");
    expect_not("no_such_command_xy {} | cat", "command not found: no_such_command_xy");
    expect_not("/no/such", "the file /no/such does not exist");
    expect_not("/tmp", "it is a directory");
    expect_not(path, "it is not executable for you");
    CHECK_EQ(chmod(path, 0755), 0);
    CHECK_EQ(check_words(WORDS(path)), 0);
    setenv("PATH", "/nowhere::/usr/bin", 1);
    CHECK_EQ(chdir(sh_dir()), 0);
    CHECK_EQ(check_words(WORDS("tool")), 0); /* an empty entry of PATH is the current directory */
    CHECK_EQ(chmod(path, 0644), 0);
    expect_not("tool", "it is not executable for you");
    setenv("PATH", "/nowhere", 1);
    expect_not("cat", "command not found");
    unsetenv("PATH");
    CHECK_EQ(check_words(WORDS("cat")), 0); /* without PATH a shell uses its default PATH */
}

TEST(a_shell_that_cannot_be_run)
{
    no_start_up_file();
    struct gd_command *c = open_spec((struct gd_command_spec){ .words = WORDS("cat"), .shell = "/no/shell" });
    CHECK_EQ(gd_command_check(c), GD_E_INVALID);
    CHECK_CONTAINS(gd_error_text(), "the shell");
    gd_command_close(&c);
    c = open_spec((struct gd_command_spec){ .words = WORDS("cat"), .shell = "/no/shell", .dry_run = true });
    CHECK_EQ(gd_command_check(c), 0);
    gd_command_close(&c);
}

/* ---- how workers are started ---- */

static void expect_words(char **argv, const char *const *words)
{
    CHECK(argv != NULL);
    size_t i = 0;
    for (; words[i]; i++)
        CHECK_STR(argv[i], words[i]);
    CHECK(argv[i] == NULL);
    gd_argv_free(argv);
}

TEST(arguments_of_workers)
{
    struct gd_command_spec spec = { .size = sizeof spec, .words = WORDS("a", "{}"), .host = "/h" };
    expect_words(gd_command_worker(&spec), WORDS("/h", "--command", "--", "a", "{}"));
    spec.quote = spec.dry_run = spec.ungroup = true;
    spec.shell = "zsh";
    spec.host = NULL;
    setenv("GPU_DISPATCH_HOST", "/e", 1);
    expect_words(gd_command_worker(&spec),
                 WORDS("/e", "--command", "--quote", "--dry-run", "--ungroup", "--shell", "zsh", "--", "a", "{}"));
    struct gd_stream_spec stream = { .size = sizeof stream, .words = WORDS("s", "-x"), .json = true };
    expect_words(gd_stream_worker(&stream), WORDS("/e", "--stream", "--json", "--", "s", "-x"));
    unsetenv("GPU_DISPATCH_HOST");
    stream.json = false;
    char **argv = gd_stream_worker(&stream);
    CHECK_CONTAINS(argv[0], "gpu-dispatch-host");
    gd_argv_free(argv);
    stream.words = (const char *const[]){ NULL };
    CHECK(gd_stream_worker(&stream) == NULL);
    spec.words = NULL;
    CHECK(gd_command_worker(&spec) == NULL);
    gd_argv_free(NULL);
}

TEST_MAIN()
