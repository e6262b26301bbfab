/* SPDX-License-Identifier: MIT
 *
 * --shard with the files of a directory, which are divided by size: `run --input-dir` and `transcribe`. The deal is in a
 * file beside the journal, or in the output directory of `transcribe`.
 */
#include "command/transcribe.h"

/* Makes 60 files of 10 to 36000 bytes, some in a subdirectory. */
#define FILES                                                                                                          \
    "mkdir -p in/sub; for i in $(seq 60); do f=in/f$i; ((i %% 4)) || f=in/sub/f$i; head -c $((i * i * 10)) /dev/zero " \
    "> $f; done; "

#define OVER RUN "--input-dir in --recursive "

/* --- run --input-dir --- */

TEST(files_are_divided_by_size)
{
    need_journal();
    struct ran r =
        sh(FILES "for k in 1 2 3; do " OVER "--shard $k/3 --journal run.db 'wc -c < {}' > $k; done; cat 1 2 3 | "
                 "wc -l; ls *.deal; for k in 1 2 3; do awk '{ s += $1 } END { print s }' $k; done");
    unsigned long sums[3] = { 0 };
    CHECK_EQ(sscanf(r.out, "60\nrun.of-3.deal\n%lu\n%lu\n%lu\n", &sums[0], &sums[1], &sums[2]), 3);
    for (int i = 0; i < 3; i++) {
        CHECK_GT(sums[i], 246000 * 0.95);
        CHECK_LT(sums[i], 246000 * 1.05);
    }
}

TEST(shards_that_start_at_the_same_time_use_one_deal)
{
    need_journal();
    struct ran r =
        sh(FILES "for k in 1 2 3 4; do " OVER "--shard $k/4 --journal run.db echo & done | sort > got; wait; find "
                 "in -type f | sort | cmp - got; ls *.deal*");
    CHECK_STR(r.out, "run.of-4.deal\n");
}

/* The sizes have changed and another file has appeared when the other shards start. */
TEST(files_that_appear_later_and_changed_sizes)
{
    need_journal();
    struct ran r =
        sh(FILES OVER "--key path --shard 1/3 --journal run.db echo > got; : > in/f59; cp in/f58 in/sub/new; for k "
                      "in 1 2 3; do " OVER "--key path --shard $k/3 --journal run.db --resume echo >> got; done; "
                      "find in -type f | sort > all; sort got | cmp - all");
    CHECK_STR(r.out, "");
    CHECK_STR(r.err, "");
}

TEST(keys_are_relative_to_the_directory)
{
    need_journal();
    struct ran r = sh(
        FILES "cp -r in there; for k in 1 2 3; do d=in; ((k == 2)) && d=$PWD/there//; " RUN
              "--input-dir $d --recursive --shard $k/3 --journal run.db echo; done | sed 's,.*\\(in\\|there\\)/*,,' | "
              "sort > got; cd in; find * -type f | sort | cmp - ../got");
    CHECK_STR(r.out, "");
    CHECK_STR(r.err, "");
}

TEST(without_a_journal_the_hash_decides)
{
    struct ran r =
        sh(FILES "for k in 1 2 3; do " OVER "--shard $k/3 --order none echo; done | sort > got; find in -type f | "
                 "sort | cmp - got; ls | xargs");
    CHECK_STR(r.out, "got in\n");
    CHECK_STR(r.err, "");
}

TEST(the_division_by_hash_is_reported)
{
    CHECK_CONTAINS(sh(FILES "gpu-dispatch run --gpus sim:1 --input-dir in --shard 1/3 --dry-run true").err,
                   " of 45 files, divided by hash (with --journal: by size)\n");
}

TEST(the_order_does_not_change_the_division)
{
    need_journal();
    struct ran r =
        sh(FILES OVER "--shard 1/2 --journal run.db --order none echo > got; " OVER
                      "--shard 2/2 --journal run.db --order name echo >> got; sort got > sorted; find in -type f | "
                      "sort | cmp - sorted");
    CHECK_STR(r.out, "");
    CHECK_STR(r.err, "");
}

TEST(a_damaged_deal_is_refused)
{
    need_journal();
    struct ran r = sh(FILES OVER "--shard 1/3 --journal run.db true; echo more >> run.of-3.deal; " OVER
                                 "--shard 2/3 --journal run.db true");
    CHECK_EQ(r.status, 255);
    CHECK_CONTAINS(r.err, "gpu-dispatch: run.of-3.deal is ");
    CHECK_CONTAINS(r.err, "To make a new deal, stop all shards, remove the file, and start the shards again\n");
}

TEST(a_deal_for_another_number_of_shards_is_refused)
{
    need_journal();
    struct ran r = sh(FILES OVER "--shard 1/3 --journal run.db true; mv run.of-3.deal new.of-2.deal; " OVER
                                 "--shard 2/2 --journal new.db true");
    CHECK_EQ(r.status, 255);
    CHECK_CONTAINS(r.err, "gpu-dispatch: new.of-2.deal is a deal for 3 shards, and this run has 2");
}

TEST(the_number_of_files_is_that_of_the_shard)
{
    need_journal();
    struct ran r =
        sh(FILES "gpu-dispatch run --gpus sim:1 --progress none --input-dir in --shard 1/3 --journal run.db true");
    CHECK_EQ(r.status, 0);
    CHECK_CONTAINS(r.err, "gpu-dispatch: shard 1 of 3: 16 of 45 files, divided by size\n");
    CHECK_CONTAINS(r.err, "gpu-dispatch: journal run.1-of-3.db: 16 done\n");
}

/* --- transcribe --- */

static void ten_files(void)
{
    for (unsigned i = 1; i <= 10; i++) {
        char name[32];
        snprintf(name, sizeof name, i % 3 ? "in/%u.wav" : "in/sub/%u.wav", i);
        wav(name, i);
    }
}

#define SHARD ALONE "--input-dir in -r --output-dir out --shard "

TEST(transcripts_of_all_shards_go_to_one_directory)
{
    ten_files();
    struct ran r =
        sh(STANDIN "for k in 1 2 3; do " SHARD "$k/3 --output o.jsonl & done; wait; find out -type f | sort | "
                   "xargs; cat o.*.jsonl | wc -l; ls | xargs");
    CHECK_STR(r.err, "");
    CHECK_STR(r.out,
              "out/.gpu-dispatch.of-3.deal out/1.txt out/10.txt out/2.txt out/4.txt out/5.txt out/7.txt out/8.txt "
              "out/sub/3.txt out/sub/6.txt out/sub/9.txt\n10\n"
              "in o.1-of-3.jsonl o.2-of-3.jsonl o.3-of-3.jsonl out ran\n");
}

TEST(a_shard_of_a_transcription_is_resumed)
{
    need_journal();
    ten_files();
    struct ran r =
        sh(STANDIN "for n in 1 2; do for k in 1 2 3; do " SHARD "$k/3 --journal run.db --resume || exit; done; "
                   "done; ls | xargs; for k in 1 2 3; do gpu-dispatch export --jsonl run.$k-of-3.db; done | wc -l");
    CHECK_STR(r.err, "");
    CHECK_STR(r.out, "in out ran run.1-of-3.db run.2-of-3.db run.3-of-3.db run.of-3.deal\n10\n");
}

TEST(a_resumed_shard_without_a_journal_skips_what_has_its_text)
{
    ten_files();
    const char *script = STANDIN "for k in 1 2 3; do gpu-dispatch transcribe --gpus sim:1 " MODEL
                                 "--progress none --input-dir in -r --output-dir out --shard $k/3 --resume; done";
    CHECK_EQ(sh("%s", script).status, 0);
    wav("in/11.wav", 1);
    struct ran r = sh("%s", script);
    CHECK_EQ(r.status, 0);
    CHECK_STR(sh("ls out | wc -l").out, "9\n"); /* eight files and a directory */
    CHECK_CONTAINS(r.err, "files already have their text in out: nothing to do\n");
    CHECK_CONTAINS(r.err, " of 11 files\n");
}

TEST(a_dry_run_of_a_shard_writes_no_deal)
{
    ten_files();
    struct ran r = sh("for k in 1 2 3; do gpu-dispatch transcribe --dry-run --quiet --input-dir in -r --output-dir out "
                      "--shard $k/3; done | grep -o '[0-9]*\\.wav' | sort -n | xargs; ls | xargs");
    CHECK_STR(r.out, "1.wav 2.wav 3.wav 4.wav 5.wav 6.wav 7.wav 8.wav 9.wav 10.wav\nin\n");
    CHECK_STR(r.err, "");
}

TEST(a_shard_without_files_has_nothing_to_do)
{
    wav("in/1.wav", 1);
    struct ran r = sh(STANDIN "gpu-dispatch transcribe --gpus sim:1 " MODEL
                              "--progress none --input-dir in --output-dir out --shard 2/2");
    CHECK_STR(r.err, "gpu-dispatch: shard 2 of 2: 0 of 1 file\n"
                     "gpu-dispatch: this shard has no files: nothing to do\n");
    CHECK_EQ(r.status, 0);
}

TEST_MAIN()
