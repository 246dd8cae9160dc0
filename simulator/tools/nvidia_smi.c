// The nvidia-smi of a simulated machine. Static, so that it runs in any root. It reads the machine's GPUs
// from one file (simulator/gpu_facts.hpp has the format), anew for every sample, and prints what the real one
// prints for the options that supervisors use: -L, --query-gpu, --query-compute-apps, -l/-lms loops, -i, and
// the plain table.
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#define GPUS_MAX 64
#define TEXT_MAX 128

struct gpu {
    char index[8], uuid[TEXT_MAX], name[TEXT_MAX], bus[TEXT_MAX];
    long memory, cuda_memory, used, util, temperature, watts;
    int cc;
};

static struct gpu gpus[GPUS_MAX];
static int gpu_count;
static char driver[TEXT_MAX];
static int cuda_version;
static int broken;

static const char* facts_path(void) {
    // The variable serves machines without a root of their own.
    const char* path = getenv("SIM_GPU_FACTS");
    return path != NULL ? path : "/run/gpuferry-sim/gpus";
}

static void copy(char* into, const char* from) {
    snprintf(into, TEXT_MAX, "%s", from);
}

static void read_gpu(char* row) {
    if (gpu_count >= GPUS_MAX) return;
    char* fields[11] = {0};
    int n = 0;
    for (char* at = row; at != NULL && n < 11;) fields[n++] = strsep(&at, "|");
    if (n < 11) return;
    struct gpu* g = &gpus[gpu_count++];
    snprintf(g->index, sizeof g->index, "%.7s", fields[0]);
    copy(g->uuid, fields[1]);
    copy(g->name, fields[2]);
    g->memory = strtol(fields[3], NULL, 10);
    g->cuda_memory = strtol(fields[4], NULL, 10);
    g->cc = (int)strtol(fields[5], NULL, 10);
    copy(g->bus, fields[6]);
    g->used = strtol(fields[7], NULL, 10);
    g->util = strtol(fields[8], NULL, 10);
    g->temperature = strtol(fields[9], NULL, 10);
    g->watts = strtol(fields[10], NULL, 10);
}

static int read_facts(void) {
    FILE* file = fopen(facts_path(), "r");
    if (file == NULL) return 0;
    char line[1024];
    gpu_count = 0;
    broken = 0;
    while (fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\n")] = 0;
        if (strncmp(line, "driver ", 7) == 0) copy(driver, line + 7);
        if (strncmp(line, "cuda ", 5) == 0) cuda_version = (int)strtol(line + 5, NULL, 10);
        if (strncmp(line, "broken ", 7) == 0) broken = line[7] == '1';
        if (strncmp(line, "gpu ", 4) == 0) read_gpu(line + 4);
    }
    fclose(file);
    return 1;
}

static void now_text(char* into, size_t size) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    struct tm parts;
    gmtime_r(&t.tv_sec, &parts);
    const size_t n = strftime(into, size, "%Y/%m/%d %H:%M:%S", &parts);
    snprintf(into + n, size - n, ".%03ld", t.tv_nsec / 1000000);
}

// The value of one queried property without its unit, and the unit. Returns 0 for a property nobody knows.
static int property(const struct gpu* g, const char* key, char* value, size_t size, const char** unit) {
    *unit = "";
    const struct {
        const char* name;
        long number;
        const char* unit;
    } numbers[] = {
        {"memory.total", g->memory, " MiB"},
        {"memory.used", g->used, " MiB"},
        {"memory.free", g->memory - g->used > 0 ? g->memory - g->used : 0, " MiB"},
        {"memory.reserved", 0, " MiB"},
        {"utilization.gpu", g->util, " %"},
        {"utilization.memory", g->memory > 0 ? g->util * 2 / 3 : 0, " %"},
        {"temperature.gpu", g->temperature, ""},
        {"clocks.sm", 1410 + g->util * 5, " MHz"},
        {"clocks.current.sm", 1410 + g->util * 5, " MHz"},
        {"clocks.mem", 5001, " MHz"},
        {"pcie.link.gen.current", 4, ""},
        {"pcie.link.width.current", 16, ""},
        {"count", gpu_count, ""},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; ++i) {
        if (strcmp(key, numbers[i].name) != 0) continue;
        snprintf(value, size, "%ld", numbers[i].number);
        *unit = numbers[i].unit;
        return 1;
    }
    const struct {
        const char* name;
        const char* text;
    } texts[] = {
        {"name", g->name},
        {"gpu_name", g->name},
        {"uuid", g->uuid},
        {"gpu_uuid", g->uuid},
        {"index", g->index},
        {"driver_version", driver},
        {"pci.bus_id", g->bus},
        {"gpu_bus_id", g->bus},
        {"compute_mode", "Default"},
        {"pstate", g->util > 0 ? "P0" : "P8"},
        {"persistence_mode", "Enabled"},
        {"display_active", "Disabled"},
        {"fan.speed", "[N/A]"},
        {"mig.mode.current", "[N/A]"},
        {"ecc.mode.current", "[N/A]"},
        {"ecc.errors.uncorrected.volatile.total", "[N/A]"},
        {"serial", "[N/A]"},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; ++i) {
        if (strcmp(key, texts[i].name) != 0) continue;
        snprintf(value, size, "%s", texts[i].text);
        return 1;
    }
    if (strcmp(key, "power.draw") == 0 || strcmp(key, "power.limit") == 0) {
        snprintf(value, size, "%ld.00", key[6] == 'd' ? g->watts : 450);
        *unit = " W";
        return 1;
    }
    if (strcmp(key, "compute_cap") == 0) {
        snprintf(value, size, "%d.%d", g->cc / 100, g->cc / 10 % 10);
        return 1;
    }
    if (strcmp(key, "timestamp") == 0) {
        now_text(value, size);
        return 1;
    }
    return 0;
}

struct options {
    const char* query;
    const char* select;
    long loop_ms;
    int list, csv, header, units, apps, help;
};

static int selected(const struct options* o, const struct gpu* g) {
    if (o->select == NULL) return 1;
    char list[1024];
    snprintf(list, sizeof list, "%s", o->select);
    for (char *at = list, *one; (one = strsep(&at, ",")) != NULL;) {
        if (strcmp(one, g->index) == 0 || strcmp(one, g->uuid) == 0 || strcasecmp(one, g->bus) == 0) return 1;
    }
    return 0;
}

static int print_row(const struct options* o, const struct gpu* g, int header) {
    char list[4096];
    snprintf(list, sizeof list, "%s", o->query);
    int first = 1;
    for (char *at = list, *key; (key = strsep(&at, ",")) != NULL;) {
        while (isspace((unsigned char)*key)) ++key;
        for (size_t n = strlen(key); n > 0 && isspace((unsigned char)key[n - 1]); --n) key[n - 1] = 0;
        char value[256];
        const char* unit;
        if (!property(g, key, value, sizeof value, &unit)) {
            printf("Field \"%s\" is not a valid field to query.\n\n", key);
            return 2;
        }
        if (!first) fputs(", ", stdout);
        first = 0;
        if (header) {
            fputs(key, stdout);
            if (*unit != 0) printf(" [%s]", unit + 1);
        } else {
            fputs(value, stdout);
            if (o->units) fputs(unit, stdout);
        }
    }
    putchar('\n');
    return 0;
}

static int print_query(const struct options* o, int header) {
    if (!o->csv) {
        puts(
            "\"--format=\" option is missing. Please run 'nvidia-smi --help-query-gpu' for more "
            "information.\n");
        return 2;
    }
    static const struct gpu none;
    if (gpu_count == 0) {
        puts("No devices were found");
        return 6;
    }
    if (header && o->header) {
        const int rc = print_row(o, &none, 1);
        if (rc != 0) return rc;
    }
    for (int i = 0; i < gpu_count; ++i) {
        if (!selected(o, &gpus[i])) continue;
        const int rc = print_row(o, &gpus[i], 0);
        if (rc != 0) return rc;
    }
    return 0;
}

static int print_list(void) {
    if (gpu_count == 0) {
        puts("No devices found.");
        return 6;
    }
    for (int i = 0; i < gpu_count; ++i)
        printf("GPU %s: %s (UUID: %s)\n", gpus[i].index, gpus[i].name, gpus[i].uuid);
    return 0;
}

static int print_table(void) {
    if (gpu_count == 0) {
        puts("No devices were found");
        return 6;
    }
    char when[64];
    now_text(when, sizeof when);
    puts(when);
    const char* bar =
        "+-----------------------------------------------------------------------------------------+";
    puts(bar);
    char cuda[16];
    snprintf(cuda, sizeof cuda, "%d.%d", cuda_version / 1000, cuda_version / 10 % 100);
    printf("| NVIDIA-SMI %-18s Driver Version: %-14s CUDA Version: %-10s |\n", driver, driver, cuda);
    puts("|-----------------------------------------+------------------------+----------------------+");
    puts("| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |");
    puts("| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |");
    puts("|=========================================+========================+======================|");
    for (int i = 0; i < gpu_count; ++i) {
        const struct gpu* g = &gpus[i];
        printf("| %3s  %-25.25s     On | %-16s   Off |                  N/A |\n", g->index, g->name, g->bus);
        printf("| N/A  %3ldC    %s             %4ldW /  450W | %7ldMiB / %7ldMiB | %6ld%%      Default |\n",
               g->temperature, g->util > 0 ? "P0" : "P8", g->watts, g->used, g->memory, g->util);
        puts("+-----------------------------------------+------------------------+----------------------+");
    }
    puts("\n| Processes:                                                                              |");
    puts("|  No running processes found                                                             |");
    puts(bar);
    return 0;
}

static int print_once(const struct options* o, int first) {
    if (!read_facts() || broken) {
        puts(
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that "
            "the latest "
            "NVIDIA driver is installed and running.\n");
        return 9;
    }
    if (o->list) return print_list();
    if (o->apps) {
        // No process of a simulated machine holds GPU memory.
        if (o->header && first) puts("pid, process_name, used_gpu_memory [MiB]");
        return 0;
    }
    if (o->query != NULL) return print_query(o, first);
    return print_table();
}

// "--name=value", "--name value" or a short "-x value". Returns the value, or NULL when `arg` is another
// option.
static const char* value_of(const char* name, char** argv, int argc, int* i) {
    const char* arg = argv[*i];
    const size_t n = strlen(name);
    if (strncmp(arg, name, n) != 0) return NULL;
    if (arg[n] == '=') return arg + n + 1;
    if (arg[n] != 0) return NULL;
    if (*i + 1 < argc && argv[*i + 1][0] != '-') return argv[++*i];
    return "";
}

static void set_format(struct options* o, const char* text) {
    o->csv = strstr(text, "csv") != NULL;
    if (strstr(text, "noheader") != NULL) o->header = 0;
    if (strstr(text, "nounits") != NULL) o->units = 0;
}

static int parse(struct options* o, int argc, char** argv) {
    for (int i = 1; i < argc; ++i) {
        const char* v;
        if (strcmp(argv[i], "-L") == 0 || strcmp(argv[i], "--list-gpus") == 0) {
            o->list = 1;
        } else if (strcmp(argv[i], "-h") == 0 || strcmp(argv[i], "--help") == 0) {
            o->help = 1;
        } else if ((v = value_of("--query-gpu", argv, argc, &i)) != NULL) {
            o->query = v;
        } else if ((v = value_of("--query-compute-apps", argv, argc, &i)) != NULL) {
            o->apps = 1;
        } else if ((v = value_of("--format", argv, argc, &i)) != NULL) {
            set_format(o, v);
        } else if ((v = value_of("-lms", argv, argc, &i)) != NULL ||
                   (v = value_of("--loop-ms", argv, argc, &i)) != NULL) {
            o->loop_ms = strtol(v, NULL, 10);
        } else if ((v = value_of("-l", argv, argc, &i)) != NULL ||
                   (v = value_of("--loop", argv, argc, &i)) != NULL) {
            o->loop_ms = *v != 0 ? strtol(v, NULL, 10) * 1000 : 5000;
        } else if ((v = value_of("-i", argv, argc, &i)) != NULL ||
                   (v = value_of("--id", argv, argc, &i)) != NULL) {
            o->select = v;
        } else {
            printf("Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.\n\n");
            return 0;
        }
    }
    return 1;
}

int main(int argc, char** argv) {
    struct options o = {.header = 1, .units = 1};
    if (!parse(&o, argc, argv)) return 1;
    if (o.help) {
        puts(
            "nvidia-smi [-L] [-i ID] [-l SEC | -lms MS] [--query-gpu=F,.. "
            "--format=csv[,noheader][,nounits]]");
        return 0;
    }
    for (int first = 1;; first = 0) {
        const int rc = print_once(&o, first);
        if (fflush(stdout) != 0) return 1;
        if (rc != 0 || o.loop_ms <= 0) return rc;
        const struct timespec pause = {o.loop_ms / 1000, o.loop_ms % 1000 * 1000000};
        nanosleep(&pause, NULL);
    }
}
