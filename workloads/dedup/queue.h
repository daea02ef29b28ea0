/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The bounded queue between two pools of threads. It ends when all that put into it have left. */
#ifndef STEADY_DEDUP_QUEUE_H
#define STEADY_DEDUP_QUEUE_H

#include <pthread.h>

#define QUEUE_SLOTS 32

struct queue {
	pthread_mutex_t mutex;
	pthread_cond_t has_item, has_room;
	void *items[QUEUE_SLOTS];
	unsigned int head, count;
	unsigned int producers; /* that have not left */
};

void queue_init(struct queue *queue, unsigned int producers);

/* Waits for room. */
void queue_put(struct queue *queue, void *item);

/* Waits for an item; NULL once there are no more and all producers have left. */
void *queue_take(struct queue *queue);

/* A producer puts nothing any more. */
void queue_leave(struct queue *queue);

#endif
