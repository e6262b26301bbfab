/* SPDX-License-Identifier: MIT
 *
 * Runs a libFuzzer target with the files of its corpus, without libFuzzer. So every input that once found an error is
 * an ordinary test, with any compiler. A crash of the target is a failure. Each file is a test case with the file's
 * name, and runs in its own process (support/test.h).
 *
 * usage: replay_<name> CORPUS_DIR
 */
#include <dirent.h>

#include "support/test.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *replay_path; /* the file of the current test case */

static void replay(void)
{
    FILE *f = fopen(replay_path, "rbe");
    CHECK(f != NULL);
    CHECK_EQ(fseek(f, 0, SEEK_END), 0);
    long size = ftell(f);
    CHECK(size >= 0);
    rewind(f);
    /* Exactly as large as the file, so that ASan detects a read past its end. */
    uint8_t *data = malloc(size > 0 ? (size_t)size : 1);
    CHECK(data != NULL);
    CHECK_EQ(fread(data, 1, (size_t)size, f), size);
    fclose(f);
    LLVMFuzzerTestOneInput(data, (size_t)size);
    free(data);
}

static int replay_entry(const char *dir, const char *name)
{
    static char path[4096];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    replay_path = path;
    const struct test_case c = { name, replay, 0, NULL };
    return test_run_case(&c);
}

int main(int argc, char **argv)
{
    struct dirent **entries = NULL;
    int n = argc == 2 ? scandir(argv[1], &entries, NULL, alphasort) : -1;
    if (n < 0 || test_prepare() < 0) {
        fprintf(stderr, "usage: %s CORPUS_DIR\n", argv[0]);
        return 1;
    }
    int passed = 0, failed = 0;
    for (int i = 0; i < n; i++) {
        if (entries[i]->d_name[0] != '.') {
            int result = replay_entry(argv[1], entries[i]->d_name);
            passed += result == 0;
            failed += result != 0;
        }
        free(entries[i]);
    }
    free(entries);
    printf("%d passed, %d failed\n", passed, failed);
    return failed || !passed;
}
