/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A complex fast Fourier transform of 2^N points: bit-reversal, then N passes of butterflies, each
 * pass split over the threads. Stands in for NAS FT: passes with strides from one element to half
 * the array, so reuse of a page falls with every pass.
 *
 * Check: the input is a sum of three waves of known frequency and height, so the exact transform
 * is three peaks and zeros elsewhere. Every point is compared with that, not with another FFT.
 *
 * Usage: fft [threads 1..64] [log2 of points 4..26]
 */
#include <complex.h>
#include <math.h>

#include "kernel.h"

struct wave {
	long frequency;
	double height;
};

static long points;
static int log2_points;
static double complex *data;
static double complex *roots; /* exp(-2 pi i k / points) for k below points / 2 */
static long half; /* half the length of this pass's butterflies */

static const double turn = 6.283185307179586476925;

static void make_input(const struct wave *waves, int count)
{
	for (long i = 0; i < points; i++) {
		data[i] = 0;
		for (int w = 0; w < count; w++) {
			/* The angle's whole turns are taken out as integers, exactly. */
			long step = (long)((__int128)waves[w].frequency * i % points);

			data[i] += waves[w].height * cexp(I * turn * (double)step / (double)points);
		}
	}
}

static void make_roots(struct slice *s)
{
	for (long k = s->from; k < s->to; k++)
		roots[k] = cexp(-I * turn * (double)k / (double)points);
}

/* Each pair is swapped once, by the thread that owns its lower index. */
static void reverse_bits(struct slice *s)
{
	for (long i = s->from; i < s->to; i++) {
		long mirrored = 0;

		for (int bit = 0; bit < log2_points; bit++)
			mirrored |= (i >> bit & 1) << (log2_points - 1 - bit);
		if (i < mirrored) {
			double complex kept = data[i];

			data[i] = data[mirrored];
			data[mirrored] = kept;
		}
	}
}

static void butterflies(struct slice *s)
{
	for (long i = s->from; i < s->to; i++) {
		long within = i & (half - 1);
		long low = 2 * (i - within) + within;
		double complex turned = data[low + half] * roots[within * (points / 2 / half)];

		data[low + half] = data[low] - turned;
		data[low] += turned;
	}
}

int main(int argc, char **argv)
{
	int threads = (int)argument(argc, argv, 1, 12, 1, MAX_THREADS);
	double worst = 0;

	log2_points = (int)argument(argc, argv, 2, 16, 4, 26);
	points = 1L << log2_points;
	const struct wave waves[] = {
		{ 1, 1.0 }, { points / 2 - 1, 0.25 }, { points - 3, 2.0 },
	};

	data = allocate((size_t)points * sizeof(*data));
	roots = allocate((size_t)points / 2 * sizeof(*roots));
	make_input(waves, 3);
	trace_start();
	in_parallel(threads, points / 2, make_roots);
	in_parallel(threads, points, reverse_bits);
	for (half = 1; half < points; half *= 2)
		in_parallel(threads, points / 2, butterflies);
	trace_stop();

	for (long i = 0; i < points; i++) {
		double exact = 0;

		for (int w = 0; w < 3; w++)
			if (waves[w].frequency == i)
				exact = waves[w].height * (double)points;
		worst = fmax(worst, cabs(data[i] - exact));
	}
	/* Rounding grows with the square root of the passes at worst: 1e-12 leaves a wide margin. */
	worst /= (double)points;
	printf("fft: %ld points, largest error %s 1e-12\n", points, worst < 1e-12 ? "below" : "ABOVE");
	return !(worst < 1e-12);
}
