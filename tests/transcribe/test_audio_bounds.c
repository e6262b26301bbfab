/* SPDX-License-Identifier: MIT
 *
 * The resources that reading an audio file needs: memory, descriptors, one thread. The file can be closed at any time.
 */
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>

#include "transcribe/sounds.h"

static long rss_bytes(void)
{
    struct rusage u;
    CHECK_EQ(getrusage(RUSAGE_SELF, &u), 0);
    return u.ru_maxrss * 1024;
}

/* A sparse file of three hours, which is read 60 s ahead. */
TEST(hours_in_bounded_memory)
{
    enum { AHEAD = 60, SECONDS = 3 * 3600, RATE = 16000 };
    directory_enter();
    struct made m = make_wav(&(struct wav_spec){ 1, 1, RATE, 16, SECONDS * RATE * 2, 0 });
    save(&m, "a.wav");
    drop(&m);
    CHECK_EQ(truncate("a.wav", 44 + (off_t)SECONDS * RATE * 2), 0);
    struct tr_audio *a;
    memset(samples, 0, sizeof samples); /* so that the memory of the test itself is resident before */
    make_wav_file("b.wav", RATE, 1, 100);
    read_all("b.wav"); /* so that the libraries are loaded before */
    const long before = rss_bytes();
    CHECK_EQ(open_ahead(&a, "a.wav", AHEAD), 0);
    CHECK(tr_audio_seconds(a) == SECONDS);
    long n;
    int64_t total = 0;
    while ((n = tr_audio_read(a, samples, MOST, message)) > 0)
        total += n;
    CHECK_EQ(total, (int64_t)SECONDS * TR_RATE);
    tr_audio_close(&a);
    if (TEST_SLOWDOWN == 1) /* sanitizers keep released memory */
        CHECK_LT(rss_bytes() - before, AHEAD * TR_RATE * 4 * 2.5);
}

static int open_descriptors(void)
{
    const int fd = dup(0);
    close(fd);
    return fd;
}

/* The number of threads of audio.c, found by their name. A joined thread may still be listed for a moment. */
static int threads(void)
{
    int n = 0;
    DIR *tasks = opendir("/proc/self/task");
    CHECK(tasks != NULL);
    for (const struct dirent *e; (e = readdir(tasks));) {
        char path[300], name[32] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", e->d_name);
        FILE *f = fopen(path, "re");
        if (f && fgets(name, sizeof name, f))
            n += strcmp(name, "gd-audio\n") == 0;
        if (f)
            fclose(f);
    }
    closedir(tasks);
    return n;
}

TEST(opened_and_closed_a_thousand_times)
{
    directory_enter();
    make_wav_file("a.wav", 44100, 2, 44100);
    make_wav_file("b.wav", 16000, 1, 16000 * 3);
    cut("b.wav", 1);
    make_file("bad.wav", 1000);
    struct tr_audio *a;
    const int fd = open_descriptors();
    for (int i = 0; i < 1000; i++) {
        CHECK_EQ(open_ahead(&a, i % 2 ? "a.wav" : "b.wav", 1), 0);
        if (i % 3)
            CHECK_GT(tr_audio_read(a, samples, 100, message), 0);
        tr_audio_close(&a);
        CHECK_EQ(tr_audio_open(&a, "bad.wav", message), -1);
    }
    tr_audio_close(&a); /* NULL is fine */
    CHECK_EQ(open_descriptors(), fd);
    while (threads() > 0) /* never ends if a thread is left */
        sched_yield();
}

TEST(closed_while_the_thread_decodes)
{
    directory_enter();
    CHECK(make("a.flac", SF_FORMAT_FLAC | SF_FORMAT_PCM_16, 44100, 2, 44100L * 30));
    for (int i = 0; i < 50; i++) {
        struct tr_audio *a;
        CHECK_EQ(open_ahead(&a, "a.flac", 1), 0);
        CHECK_EQ(tr_audio_read(a, samples, (size_t)(1 + i * 1000), message), 1 + i * 1000);
        tr_audio_close(&a);
    }
}

/* The samples are the same for all sizes of reads and of the ring. */
TEST(reads_of_any_size)
{
    static const size_t sizes[] = { 1, 7, 4096, 16000, 50000, MOST };
    static float whole[200000];
    directory_enter();
    make_wav_file("a.wav", 44100, 2, 44100 * 10 + 13);
    const long n = read_all("a.wav");
    CHECK(n > 160000 && n < 200000);
    memcpy(whole, samples, (size_t)n * sizeof *whole);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct tr_audio *a;
        long got, total = 0;
        CHECK_EQ(open_ahead(&a, "a.wav", 1), 0);
        memset(samples, 0, sizeof samples);
        while ((got = tr_audio_read(a, samples + total, sizes[i], message)) > 0) {
            total += got;
            CHECK(got == (long)sizes[i] || total == n);
        }
        CHECK_EQ(total, n);
        CHECK_MEM(samples, whole, (size_t)n * sizeof *whole);
        tr_audio_close(&a);
    }
}

/* Opening decodes on the calling thread. The first read starts another thread, which gets no signals. */
static volatile pthread_t handled_by;

static void note_thread(int signo)
{
    (void)signo;
    handled_by = pthread_self();
}

TEST(the_thread_starts_with_the_first_read_and_takes_no_signals)
{
    directory_enter();
    make_wav_file("a.wav", 16000, 1, 16000 * 20);
    struct tr_audio *a;
    CHECK_EQ(open_ahead(&a, "a.wav", 2), 0);
    CHECK_EQ(threads(), 0);
    CHECK_EQ(tr_audio_read(a, samples, 10, message), 10);
    CHECK_EQ(threads(), 1);
    struct sigaction act = { .sa_handler = note_thread };
    sigset_t set;
    CHECK_EQ(sigaction(SIGUSR1, &act, NULL), 0);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    CHECK_EQ(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
    CHECK_EQ(kill(getpid(), SIGUSR1), 0);
    CHECK_EQ(tr_audio_read(a, samples, 160000, message), 160000); /* time enough for the thread to get it */
    CHECK(handled_by == 0);
    CHECK_EQ(pthread_sigmask(SIG_UNBLOCK, &set, NULL), 0);
    CHECK(handled_by == pthread_self());
    tr_audio_close(&a);
}

TEST(a_file_that_opening_decodes_to_its_end_needs_no_thread)
{
    directory_enter();
    make_wav_file("a.wav", 44100, 2, 44100 * 3);
    struct tr_audio *a = opened("a.wav");
    CHECK_EQ(tr_audio_read(a, samples, MOST, message), 48000);
    CHECK_EQ(threads(), 0);
    tr_audio_close(&a);
}

TEST_MAIN()
