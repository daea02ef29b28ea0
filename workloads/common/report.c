/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "report.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "talk.h"

#define METRICS_MAX 48
#define DISTRIBUTIONS_MAX 4
#define NAME_MAX_BYTES 64

struct metric {
	char name[NAME_MAX_BYTES];
	const char *unit;
	enum better better;
	uint64_t value;
};

struct distribution {
	const char *name;
	const struct histogram *histogram;
};

static struct metric metrics[METRICS_MAX];
static struct distribution distributions[DISTRIBUTIONS_MAX];
static unsigned int metric_count, distribution_count;

static const char *const better_words[] = {
	[BETTER_LOWER] = "lower",
	[BETTER_HIGHER] = "higher",
	[BETTER_NEUTRAL] = "neutral",
};

void report_metric(const char *name, const char *unit, enum better better, uint64_t value)
{
	struct metric *metric;

	if (metric_count == METRICS_MAX)
		fail(EXIT_FAULT, "more than %d metrics", METRICS_MAX);
	if (value > INT64_MAX)
		fail(EXIT_FAULT, "metric %s: %" PRIu64 " does not fit 63 bits", name, value);
	metric = &metrics[metric_count++];
	snprintf(metric->name, sizeof(metric->name), "%s", name);
	metric->unit = unit;
	metric->better = better;
	metric->value = value;
}

static void report_part(const char *name, const char *part, const char *unit, enum better better,
			uint64_t value)
{
	char full[NAME_MAX_BYTES];

	snprintf(full, sizeof(full), "%s.%s", name, part);
	report_metric(full, unit, better, value);
}

void report_latency(const char *name, const struct histogram *histogram)
{
	/* Without values there is no mean; a 0 would look like a splendid one. */
	if (histogram->count) {
		report_part(name, "mean", "ns", BETTER_LOWER, histogram_mean(histogram));
		report_part(name, "p50", "ns", BETTER_LOWER, histogram_percentile(histogram, 50));
		report_part(name, "p90", "ns", BETTER_LOWER, histogram_percentile(histogram, 90));
		report_part(name, "p99", "ns", BETTER_LOWER, histogram_percentile(histogram, 99));
		report_part(name, "max", "ns", BETTER_LOWER, histogram->max);
	}
	if (distribution_count == DISTRIBUTIONS_MAX)
		fail(EXIT_FAULT, "more than %d distributions", DISTRIBUTIONS_MAX);
	distributions[distribution_count++] = (struct distribution){ name, histogram };
}

void report_work(const char *name, uint64_t operations, uint64_t time_ns)
{
	const uint64_t ns_per_ks = UINT64_C(1000000000000);
	uint64_t rate = 0;

	if (time_ns)
		rate = (uint64_t)((unsigned __int128)operations * ns_per_ks / time_ns);
	report_part(name, "operations", "count", BETTER_NEUTRAL, operations);
	report_metric("throughput", "ops/ks", BETTER_HIGHER, rate);
	report_part(name, "time", "ns", BETTER_LOWER, time_ns);
}

static void print_distribution(const struct distribution *distribution)
{
	const struct histogram *histogram = distribution->histogram;
	const char *comma = "";

	printf("{\"name\":\"%s\",\"unit\":\"ns\",\"count\":%" PRIu64 ",\"sum\":%" PRIu64
	       ",\"min\":%" PRIu64 ",\"max\":%" PRIu64 ",\"buckets\":[",
	       distribution->name, histogram->count, histogram->sum, histogram->min,
	       histogram->max);
	for (unsigned int bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++) {
		if (!histogram->buckets[bucket])
			continue;
		printf("%s[%" PRIu64 ",%" PRIu64 ",%" PRIu64 "]", comma, histogram_low(bucket),
		       histogram_high(bucket), histogram->buckets[bucket]);
		comma = ",";
	}
	fputs("]}", stdout);
}

void report_print(const char *program)
{
	printf("{\"schema\":\"steady.workload\",\"version\":1,\"program\":\"%s\",\"metrics\":[",
	       program);
	for (unsigned int index = 0; index < metric_count; index++) {
		const struct metric *metric = &metrics[index];

		printf("%s{\"name\":\"%s\",\"unit\":\"%s\",\"better\":\"%s\",\"value\":%" PRIu64
		       "}",
		       index ? "," : "", metric->name, metric->unit, better_words[metric->better],
		       metric->value);
	}
	fputs("],\"distributions\":[", stdout);
	for (unsigned int index = 0; index < distribution_count; index++) {
		if (index)
			fputc(',', stdout);
		print_distribution(&distributions[index]);
	}
	fputs("]}\n", stdout);
	if (fflush(stdout) || ferror(stdout))
		fail(EXIT_FAULT, "writing the result to stdout: %s", strerror(errno));
}
