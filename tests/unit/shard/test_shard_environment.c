/* SPDX-License-Identifier: MIT
 *
 * Which shard is found in which environment, and which environments are errors. An environment is one text of
 * NAME=value with blanks between them. Those marked "measured" are what Slurm 22.05 sets.
 */
#include "base/error.h"
#include "shard/environment.h"
#include "support/test.h"

enum { VALUE_ROOM = 512, VALUES = 32 };

/* Finds a variable in the text. Each value gets its own room, as in a real environment. */
struct table {
    const char *text;
    char values[VALUES][VALUE_ROOM];
    unsigned used;
};

static const char *get(void *user, const char *name)
{
    struct table *t = user;
    const size_t length = strlen(name);
    for (const char *at = t->text; *at; at += strcspn(at, " "), at += strspn(at, " ")) {
        if (strncmp(at, name, length) != 0 || at[length] != '=')
            continue;
        CHECK_LT(t->used, VALUES);
        char *value = t->values[t->used++];
        snprintf(value, VALUE_ROOM, "%.*s", (int)strcspn(at + length + 1, " "), at + length + 1);
        return value;
    }
    return NULL;
}

/* The variable BATCH_SCRIPT stands for what the processes show. */
static bool in_batch_script(void *user)
{
    return get(user, "BATCH_SCRIPT") != NULL;
}

static int find_with(const char *shard, const char *text, struct gd_shard *out, char origin[GD_SHARD_ORIGIN])
{
    struct table t = { .text = text };
    const struct gd__shard_environment e = { .get = get, .in_batch_script = in_batch_script, .user = &t };
    struct gd__shard_spec spec;
    CHECK_EQ(gd__shard_parse(&spec, shard), 0);
    return gd__shard_find(out, origin, &spec, &e);
}

#define SLURM_JOB  "SLURM_JOB_ID=12 SLURM_JOB_NUM_NODES=1 SLURM_NNODES=1 SLURM_NODEID=0 SLURM_LOCALID=0 "
#define SLURM_JOB3 "SLURM_JOB_ID=12 SLURM_JOB_NUM_NODES=3 SLURM_NNODES=3 SLURM_NODEID=0 SLURM_LOCALID=0 "
#define SRUN(id, n) \
    SLURM_JOB3 "SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=" n " SLURM_NTASKS=" n " SLURM_NPROCS=" n " SLURM_PROCID=" id " "
#define ARRAY_OF(id, count, min, max, step)                                                                       \
    "SLURM_ARRAY_JOB_ID=12 SLURM_ARRAY_TASK_ID=" id " SLURM_ARRAY_TASK_COUNT=" count " SLURM_ARRAY_TASK_MIN=" min \
    " SLURM_ARRAY_TASK_MAX=" max " SLURM_ARRAY_TASK_STEP=" step " "
#define ARRAY(id, count, min, max, step) SLURM_JOB "SLURM_PROCID=0 " ARRAY_OF(id, count, min, max, step)
#define ARRAY_SRUN(a, p)                 SRUN(p, "3") ARRAY_OF(a, "2", "0", "1", "1")

static const struct {
    const char *shard, *environment;
    uint32_t index, count;
    const char *origin;
} found[] = {
    /* Measured: srun -N3 --ntasks-per-node=1 */
    { "auto", SRUN("0", "3"), 0, 3, "task 1 of 3 of srun" },
    { "auto", SRUN("1", "3"), 1, 3, "task 2 of 3 of srun" },
    { "auto", SRUN("2", "3"), 2, 3, "task 3 of 3 of srun" },
    { "auto/3", SRUN("2", "3"), 2, 3, "task 3 of 3 of srun" },
    { "auto", SRUN("0", "1"), 0, 1, "task 1 of 1 of srun" },
    { "auto", "SLURM_STEP_ID=7 SLURM_PROCID=5 SLURM_NTASKS=8", 5, 8, "task 6 of 8 of srun" },
    /* Measured: srun --mpi=pmi2 sets PMI's variables too. */
    { "auto", SRUN("1", "3") "PMI_RANK=1 PMI_SIZE=3 PMI_FD=5", 1, 3, "task 2 of 3 of srun" },
    /* Measured: sbatch --ntasks=1 : --nodes=2 --ntasks=2, and srun --het-group=0,1 */
    { "auto", SRUN("2", "3") "SLURM_HET_SIZE=2", 2, 3, "task 3 of 3 of srun" },
    /* Measured: sbatch --array=0-3, with SLURM_PROCID=0 and without SLURM_NTASKS */
    { "auto", ARRAY("0", "4", "0", "3", "1"), 0, 4, "element 1 of 4 of the Slurm array" },
    { "auto", ARRAY("3", "4", "0", "3", "1"), 3, 4, "element 4 of 4 of the Slurm array" },
    { "auto/4", ARRAY("2", "4", "0", "3", "1"), 2, 4, "element 3 of 4 of the Slurm array" },
    { "auto", ARRAY("2", "4", "0", "3", "1") "SLURM_NTASKS=1", 2, 4, "element 3 of 4 of the Slurm array" },
    /* The same, submitted in a step of srun */
    { "auto", ARRAY("3", "4", "0", "3", "1") "SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=1 SLURM_NTASKS=1 BATCH_SCRIPT=1", 3,
      4, "element 4 of 4 of the Slurm array" },
    /* Measured: --array=1-7:2 */
    { "auto", ARRAY("1", "4", "1", "7", "2"), 0, 4, "element 1 of 4 of the Slurm array" },
    { "auto", ARRAY("5", "4", "1", "7", "2"), 2, 4, "element 3 of 4 of the Slurm array" },
    { "auto", ARRAY("7", "4", "1", "7", "2"), 3, 4, "element 4 of 4 of the Slurm array" },
    { "auto", ARRAY("5", "1", "5", "5", "1"), 0, 1, "element 1 of 1 of the Slurm array" },
    { "auto", ARRAY("4294967295", "2", "4294967294", "4294967295", "1"), 1, 2, "element 2 of 2 of the Slurm array" },
    /* Measured: an array 0-1, and srun with 3 tasks in each element */
    { "auto", ARRAY_SRUN("0", "0"), 0, 6, "element 1 of 2 of the Slurm array, task 1 of 3 of srun" },
    { "auto", ARRAY_SRUN("0", "1"), 1, 6, "element 1 of 2 of the Slurm array, task 2 of 3 of srun" },
    { "auto", ARRAY_SRUN("0", "2"), 2, 6, "element 1 of 2 of the Slurm array, task 3 of 3 of srun" },
    { "auto", ARRAY_SRUN("1", "0"), 3, 6, "element 2 of 2 of the Slurm array, task 1 of 3 of srun" },
    { "auto", ARRAY_SRUN("1", "1"), 4, 6, "element 2 of 2 of the Slurm array, task 2 of 3 of srun" },
    { "auto/6", ARRAY_SRUN("1", "2"), 5, 6, "element 2 of 2 of the Slurm array, task 3 of 3 of srun" },
    /* PMI numbers the processes of the step, not those of the whole array. */
    { "auto", ARRAY_SRUN("1", "2") "PMI_RANK=2 PMI_SIZE=3", 5, 6,
      "element 2 of 2 of the Slurm array, task 3 of 3 of srun" },
    { "auto", "PMI_RANK=2 PMI_SIZE=4", 2, 4, "process 3 of 4 of PMI" },
    { "auto", "OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=4", 2, 4, "process 3 of 4 of Open MPI" },
    { "auto", "RANK=2 WORLD_SIZE=4 LOCAL_RANK=0", 2, 4, "process 3 of 4 of torchrun" },
    { "auto/4", "RANK=2 WORLD_SIZE=4", 2, 4, "process 3 of 4 of torchrun" },
    { "auto", "RANK=2 WORLD_SIZE=4 PMI_RANK=2 PMI_SIZE=4", 2, 4, "process 3 of 4 of PMI" },
    /* mpirun in a batch script of one node starts its processes without srun. */
    { "auto", SLURM_JOB "SLURM_PROCID=0 SLURM_NTASKS=4 OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=4", 2, 4,
      "process 3 of 4 of Open MPI" },
    /* A single rank does not change an array. */
    { "auto", ARRAY("3", "4", "0", "3", "1") "RANK=0 WORLD_SIZE=1", 3, 4,
      "element 4 of 4 of the Slurm array, process 1 of 1 of torchrun" },
    { "auto/16", "JOB_COMPLETION_INDEX=0", 0, 16, "pod 1 of 16 of Kubernetes" },
    { "auto/16", "JOB_COMPLETION_INDEX=15", 15, 16, "pod 16 of 16 of Kubernetes" },
    { "auto", "JOB_COMPLETION_INDEX=3 RANK=3 WORLD_SIZE=8", 3, 8, "process 4 of 8 of torchrun" },
    { "auto/8", "JOB_COMPLETION_INDEX=3 RANK=3 WORLD_SIZE=8", 3, 8, "process 4 of 8 of torchrun" },
    { "auto", "RANK=999999 WORLD_SIZE=1000000", 999999, 1000000, "process 1000000 of 1000000 of torchrun" },
    { "auto", SLURM_JOB "SLURM_STEP_ID=0 SLURM_PROCID=999 SLURM_NTASKS=1000 " ARRAY_OF("999", "1000", "0", "999", "1"),
      999999, 1000000, "element 1000 of 1000 of the Slurm array, task 1000 of 1000 of srun" },
    /* A number that the user writes needs no environment, not even a good one. */
    { "3/16", "", 2, 16, "" },
    { "3/16", "RANK=x SLURM_NTASKS=3 PMI_RANK=1", 2, 16, "" },
};

TEST(the_shard_is_found)
{
    for (size_t i = 0; i < sizeof found / sizeof *found; i++) {
        struct gd_shard s = { 77, 77 };
        char origin[GD_SHARD_ORIGIN] = "?";
        if (find_with(found[i].shard, found[i].environment, &s, origin) != 0)
            FAIL("%s with %s: %s", found[i].shard, found[i].environment, gd_error_text());
        if (s.index != found[i].index || s.count != found[i].count)
            FAIL("%s with %s: %u of %u", found[i].shard, found[i].environment, s.index, s.count);
        CHECK_STR(origin, found[i].origin);
        CHECK_EQ(find_with(found[i].shard, found[i].environment, &s, NULL), 0);
    }
}

#define WITHOUT_SRUN "but this process was not started by srun"
#define HALF         "sets all of them or none"
#define DIFFERENT    "number this process differently"
#define NO_ELEMENT   "there is no such element in an array"
#define SMALLER      "the first must be smaller than the second"

static const struct {
    const char *shard, *environment;
    const char *messages[4]; /* all of them are in the error message */
} refused[] = {
    /* nothing */
    { "auto", "", { "Slurm (srun, arrays), PMI, Open MPI, torchrun or Kubernetes", "ive the shard as K/N" } },
    { "auto/16", "", { "tell which shard this is" } },
    { "auto", "HOME=/root PMIX_RANK=3 OMPI_COMM_WORLD_LOCAL_RANK=1", { "tell which shard this is" } },
    { "auto",
      SLURM_JOB "SLURM_PROCID=0",
      { "SLURM_JOB_ID=12", "there is only one process", "--array=0-15", "without a shard" } },
    { "auto", SLURM_JOB "SLURM_PROCID=0 SLURM_NTASKS=1", { "SLURM_JOB_ID=12", "there is only one process" } },
    /* Measured: sbatch -N3 --ntasks-per-node=1, without srun: PROCID=0, NTASKS=3, no STEP_ID */
    { "auto",
      SLURM_JOB3 "SLURM_PROCID=0 SLURM_NTASKS=3 SLURM_NPROCS=3",
      { "SLURM_STEP_ID is not set, SLURM_NTASKS=3: the job has 3 tasks", WITHOUT_SRUN, "\"srun PROGRAM ...\"",
        "--ntasks=1" } },
    { "auto/3", SLURM_JOB3 "SLURM_PROCID=0 SLURM_NTASKS=3 SLURM_NPROCS=3", { WITHOUT_SRUN } },
    { "auto",
      SLURM_JOB3 "SLURM_PROCID=0",
      { "SLURM_JOB_NUM_NODES=3: the job has 3 nodes", WITHOUT_SRUN, "\"srun --ntasks-per-node=1 PROGRAM ...\"",
        "--nodes=1" } },
    { "auto", SLURM_JOB3 "SLURM_NTASKS=3", { WITHOUT_SRUN } }, /* salloc */
    /* The shell of salloc and the batch script have no step of srun, whatever their number is. */
    { "auto", SLURM_JOB3 "SLURM_STEP_ID=4294967290 SLURM_PROCID=0 SLURM_NTASKS=3", { WITHOUT_SRUN } },
    { "auto", SLURM_JOB3 "SLURM_STEP_ID=4294967291 SLURM_PROCID=0 SLURM_NTASKS=3", { WITHOUT_SRUN } },
    { "auto",
      ARRAY("2", "4", "0", "3", "1") "SLURM_NTASKS=3",
      { "each element of the array has 3 tasks", WITHOUT_SRUN, "\"srun PROGRAM ...\"",
        "submit the array with --ntasks=1" } },
    { "auto", SLURM_JOB3 ARRAY_OF("2", "4", "0", "3", "1"), { "each element of the array has 3 nodes", WITHOUT_SRUN } },
    /* srun, half-set */
    { "auto", "SLURM_STEP_ID=0", { "SLURM_STEP_ID=0, SLURM_PROCID is not set, SLURM_NTASKS is not set", HALF } },
    { "auto", "SLURM_STEP_ID=0 SLURM_PROCID=1", { "SLURM_NTASKS is not set", HALF, "ive the shard as K/N" } },
    { "auto", "SLURM_STEP_ID=0 SLURM_NTASKS=3", { "SLURM_PROCID is not set", HALF } },
    { "auto", "SLURM_PROCID=1 SLURM_NTASKS=3", { "SLURM_STEP_ID is not set", HALF } },
    { "auto", "SLURM_PROCID=1", { "SLURM_STEP_ID is not set", HALF } },
    { "auto", "SLURM_NTASKS=3", { "SLURM_STEP_ID is not set", WITHOUT_SRUN } },
    { "auto", "SLURM_PROCID=0", { "tell which shard this is" } },
    { "auto", "SLURM_PROCID=1 SLURM_NTASKS=3 RANK=1 WORLD_SIZE=3", { "SLURM_STEP_ID is not set", HALF } },
    /* srun, impossible */
    { "auto", SRUN("3", "3"), { "SLURM_PROCID=3, SLURM_NTASKS=3", SMALLER } },
    { "auto", SRUN("0", "0"), { "SLURM_PROCID=0, SLURM_NTASKS=0", SMALLER } },
    { "auto",
      "SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_NTASKS=1000001",
      { "SLURM_NTASKS=1000001", "more than the 1000000" } },
    /* sbatch in a step passes on the variables of that step. */
    { "auto",
      SLURM_JOB3 "SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=1 SLURM_NTASKS=3 SLURM_PROCID=0",
      { "SLURM_STEP_NUM_TASKS=1, SLURM_NTASKS=3", "of another job step", "\"srun PROGRAM ...\"" } },
    /* Measured: sbatch -N3 --ntasks-per-node=1 in a step of three tasks. All variables are those of the step. */
    { "auto",
      SRUN("0", "3") "BATCH_SCRIPT=1",
      { "SLURM_STEP_ID=0, SLURM_NTASKS=3: the job has 3 tasks", WITHOUT_SRUN } },
    { "auto", SRUN("0", "1") "BATCH_SCRIPT=1", { "the job has 3 nodes", WITHOUT_SRUN } },
    /* arrays, half-set: without each one, and with only one */
    { "auto",
      SLURM_JOB "SLURM_ARRAY_TASK_COUNT=4 SLURM_ARRAY_TASK_MIN=0 SLURM_ARRAY_TASK_MAX=3 SLURM_ARRAY_TASK_STEP=1",
      { "SLURM_ARRAY_TASK_ID is not set, SLURM_ARRAY_TASK_COUNT=4", HALF, "ive the shard as K/N" } },
    { "auto",
      SLURM_JOB "SLURM_ARRAY_TASK_ID=1 SLURM_ARRAY_TASK_MIN=0 SLURM_ARRAY_TASK_MAX=3 SLURM_ARRAY_TASK_STEP=1",
      { "SLURM_ARRAY_TASK_COUNT is not set", HALF } },
    { "auto",
      SLURM_JOB "SLURM_ARRAY_TASK_ID=1 SLURM_ARRAY_TASK_COUNT=4 SLURM_ARRAY_TASK_MAX=3 SLURM_ARRAY_TASK_STEP=1",
      { "SLURM_ARRAY_TASK_MIN is not set", HALF } },
    { "auto",
      SLURM_JOB "SLURM_ARRAY_TASK_ID=1 SLURM_ARRAY_TASK_COUNT=4 SLURM_ARRAY_TASK_MIN=0 SLURM_ARRAY_TASK_STEP=1",
      { "SLURM_ARRAY_TASK_MAX is not set", HALF } },
    { "auto",
      SLURM_JOB "SLURM_ARRAY_TASK_ID=1 SLURM_ARRAY_TASK_COUNT=4 SLURM_ARRAY_TASK_MIN=0 SLURM_ARRAY_TASK_MAX=3",
      { "SLURM_ARRAY_TASK_STEP is not set", HALF } },
    { "auto", "SLURM_ARRAY_TASK_ID=1", { "SLURM_ARRAY_TASK_ID=1", "SLURM_ARRAY_TASK_COUNT is not set", HALF } },
    { "auto", "SLURM_ARRAY_TASK_COUNT=4", { "SLURM_ARRAY_TASK_ID is not set", HALF } },
    { "auto", SRUN("1", "3") "SLURM_ARRAY_TASK_ID=1", { "SLURM_ARRAY_TASK_COUNT is not set", HALF } },
    { "auto", ARRAY("1", "4", "0", "3", "1") "SLURM_STEP_ID=0", { "SLURM_NTASKS is not set", HALF } },
    /* Measured: --array=3,7 */
    { "auto",
      ARRAY("3", "2", "3", "7", "1"),
      { "SLURM_ARRAY_TASK_COUNT=2, SLURM_ARRAY_TASK_MIN=3, SLURM_ARRAY_TASK_MAX=7", "the array has holes",
        "--array=0-1,", "ive the shard as K/N" } },
    { "auto", ARRAY("7", "2", "3", "7", "1"), { "the array has holes" } },
    { "auto/2", ARRAY("7", "2", "3", "7", "1"), { "the array has holes" } },
    { "auto/16", ARRAY("7", "2", "3", "7", "1"), { "the array has holes" } },
    { "auto", ARRAY("2", "4294967295", "0", "3", "4294967295"), { "the array has holes" } },
    /* arrays, impossible */
    { "auto", ARRAY("4", "4", "0", "3", "1"), { NO_ELEMENT } },
    { "auto", ARRAY("0", "4", "1", "4", "1"), { NO_ELEMENT } },
    { "auto", ARRAY("2", "4", "1", "7", "2"), { NO_ELEMENT } },
    { "auto", ARRAY("0", "0", "0", "3", "1"), { NO_ELEMENT } },
    { "auto", ARRAY("0", "4", "0", "3", "0"), { NO_ELEMENT } },
    { "auto", ARRAY("2", "2", "3", "1", "1"), { NO_ELEMENT } },
    { "auto", ARRAY("0", "1000001", "0", "1000000", "1"), { "more than the 1000000" } },
    { "auto",
      "SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_NTASKS=1001 " ARRAY_OF("0", "1000", "0", "999", "1"),
      { "element 1 of 1000 of the Slurm array, task 1 of 1001 of srun: these are 1001000 shards" } },
    /* the others, half-set and impossible */
    { "auto", "PMI_RANK=1", { "PMI_RANK=1, PMI_SIZE is not set: PMI " HALF, "ive the shard as K/N" } },
    { "auto", "PMI_SIZE=4", { "PMI_RANK is not set, PMI_SIZE=4", HALF } },
    { "auto", "PMI_RANK=4 PMI_SIZE=4", { "PMI_RANK=4, PMI_SIZE=4", SMALLER } },
    { "auto", "PMI_RANK=0 PMI_SIZE=0", { SMALLER } },
    { "auto", "PMI_RANK=0 PMI_SIZE=1000001", { "more than the 1000000" } },
    { "auto", "OMPI_COMM_WORLD_RANK=1", { "OMPI_COMM_WORLD_SIZE is not set: Open MPI " HALF } },
    { "auto", "OMPI_COMM_WORLD_SIZE=4", { "OMPI_COMM_WORLD_RANK is not set", HALF } },
    { "auto", "OMPI_COMM_WORLD_RANK=9 OMPI_COMM_WORLD_SIZE=4", { SMALLER } },
    { "auto", "RANK=1", { "RANK=1, WORLD_SIZE is not set: torchrun " HALF } },
    { "auto", "WORLD_SIZE=4", { "RANK is not set, WORLD_SIZE=4", HALF } },
    { "auto", "RANK=4 WORLD_SIZE=4", { SMALLER } },
    { "auto", SRUN("1", "3") "WORLD_SIZE=3", { "RANK is not set, WORLD_SIZE=3", HALF } },
    /* Kubernetes has no count. */
    { "auto",
      "JOB_COMPLETION_INDEX=3",
      { "JOB_COMPLETION_INDEX=3", "Give the shard as auto/N", "number of completions" } },
    { "auto/3", "JOB_COMPLETION_INDEX=3", { "JOB_COMPLETION_INDEX=3, but auto/3: the index must be 0 to 2" } },
    /* two sources that disagree */
    { "auto",
      "PMI_RANK=1 PMI_SIZE=4 RANK=2 WORLD_SIZE=4",
      { "PMI_RANK=1, PMI_SIZE=4, RANK=2, WORLD_SIZE=4", DIFFERENT, "PMI and torchrun", "ive the shard as K/N" } },
    { "auto", "PMI_RANK=1 PMI_SIZE=4 RANK=1 WORLD_SIZE=8", { DIFFERENT } },
    { "auto",
      "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=4 RANK=1 WORLD_SIZE=8",
      { "Open MPI and torchrun", DIFFERENT } },
    { "auto/8", "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=4 RANK=1 WORLD_SIZE=8", { DIFFERENT } },
    { "auto",
      SRUN("1", "3") "RANK=9 WORLD_SIZE=24",
      { "SLURM_PROCID=1, SLURM_NTASKS=3, RANK=9", "srun and torchrun", DIFFERENT } },
    { "auto", SRUN("1", "3") "PMI_RANK=2 PMI_SIZE=3", { "srun and PMI", DIFFERENT } },
    { "auto", SRUN("1", "3") "JOB_COMPLETION_INDEX=2", { "srun and Kubernetes", DIFFERENT } },
    { "auto", "JOB_COMPLETION_INDEX=1 RANK=9 WORLD_SIZE=16", { "torchrun and Kubernetes", DIFFERENT } },
    { "auto/16", "JOB_COMPLETION_INDEX=9 RANK=9 WORLD_SIZE=32", { DIFFERENT } },
    { "auto", ARRAY_SRUN("1", "2") "PMI_RANK=5 PMI_SIZE=6", { DIFFERENT } },
    /* an array, and ranks of another program */
    { "auto",
      ARRAY("2", "4", "0", "3", "1") "RANK=1 WORLD_SIZE=8",
      { "SLURM_ARRAY_TASK_ID=2, SLURM_ARRAY_TASK_COUNT=4, RANK=1, WORLD_SIZE=8: torchrun may number",
        "ive the shard as K/N", "\"srun PROGRAM ...\"" } },
    { "auto/32",
      ARRAY("2", "4", "0", "3", "1") "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=8",
      { "Open MPI may number" } },
    { "auto", ARRAY("2", "4", "0", "3", "1") "JOB_COMPLETION_INDEX=2", { "both a Slurm array and a Kubernetes job" } },
    { "auto/4",
      ARRAY("2", "4", "0", "3", "1") "JOB_COMPLETION_INDEX=2",
      { "both a Slurm array and a Kubernetes job" } },
    { "auto", ARRAY_SRUN("1", "2") "JOB_COMPLETION_INDEX=2", { "both a Slurm array and a Kubernetes job" } },
    /* another N than the one found */
    { "auto/16",
      SRUN("1", "3"),
      { "auto/16, but the environment has 3 shards", "task 2 of 3 of srun", "Give the shard as auto, or K/16" } },
    { "auto/2", ARRAY_SRUN("1", "2"), { "auto/2, but the environment has 6 shards" } },
    { "auto/3", ARRAY_SRUN("1", "2"), { "auto/3, but the environment has 6 shards" } },
    { "auto/16",
      ARRAY("3", "1", "3", "3", "1"),
      { "auto/16, but the environment has 1 shard: this is element 1 of 1" } },
    { "auto/5", "RANK=1 WORLD_SIZE=4", { "auto/5, but the environment has 4 shards" } },
    /* not numbers */
    { "auto", "RANK= WORLD_SIZE=4", { "RANK=: this is not a number" } },
    { "auto", "RANK=-1 WORLD_SIZE=4", { "RANK=-1: this is not a number" } },
    { "auto", "RANK=1x WORLD_SIZE=4", { "RANK=1x: this is not a number" } },
    { "auto", "RANK=0x1 WORLD_SIZE=4", { "this is not a number" } },
    { "auto", "RANK=1 WORLD_SIZE=4294967296", { "WORLD_SIZE=4294967296: this is not a number" } },
    { "auto", "SLURM_STEP_ID=batch SLURM_PROCID=0 SLURM_NTASKS=3", { "SLURM_STEP_ID=batch: this is not a number" } },
    { "auto", "JOB_COMPLETION_INDEX=$(INDEX)", { "JOB_COMPLETION_INDEX=$(INDEX): this is not a number" } },
    { "auto", SRUN("0", "3") "RANK=captain", { "RANK=captain: this is not a number", "unset it" } },
};

TEST(other_environments_are_errors)
{
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct gd_shard s;
        char origin[GD_SHARD_ORIGIN];
        if (find_with(refused[i].shard, refused[i].environment, &s, origin) != GD_E_INVALID)
            FAIL("%s with %s was accepted: %u of %u", refused[i].shard, refused[i].environment, s.index, s.count);
        for (size_t m = 0; m < 4 && refused[i].messages[m]; m++)
            CHECK_CONTAINS(gd_error_text(), refused[i].messages[m]);
        CHECK(!strstr(gd_error_text(), "--shard")); /* the message is for programs in C and Python too */
        CHECK(!strstr(gd_error_text(), "gpu-dispatch"));
    }
}

/* Whatever is set, two processes of one array with srun are never the same shard, and no shard is missing. */
TEST(elements_and_tasks_are_all_the_shards)
{
    bool seen[5 * 7] = { false };
    for (unsigned element = 0; element < 5; element++) {
        for (unsigned task = 0; task < 7; task++) {
            char text[512];
            struct gd_shard s;
            snprintf(text, sizeof text,
                     "SLURM_STEP_ID=0 SLURM_NTASKS=7 SLURM_PROCID=%u SLURM_ARRAY_TASK_ID=%u SLURM_ARRAY_TASK_COUNT=5 "
                     "SLURM_ARRAY_TASK_MIN=10 SLURM_ARRAY_TASK_MAX=22 SLURM_ARRAY_TASK_STEP=3",
                     task, 10 + 3 * element);
            CHECK_EQ(find_with("auto", text, &s, NULL), 0);
            CHECK_EQ(s.count, 35);
            CHECK_LT(s.index, 35);
            CHECK(!seen[s.index]);
            seen[s.index] = true;
        }
    }
}

TEST(a_long_value_does_not_hide_the_message)
{
    char text[400] = "RANK=";
    struct gd_shard s;
    memset(text + 5, 'x', sizeof text - 6);
    CHECK_EQ(find_with("auto", text, &s, NULL), GD_E_INVALID);
    CHECK_CONTAINS(gd_error_text(), "xxx...: this is not a number");
}

TEST_MAIN()
