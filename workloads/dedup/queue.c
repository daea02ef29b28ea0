/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "dedup/queue.h"

#include <string.h>

void queue_init(struct queue *queue, unsigned int producers)
{
	memset(queue, 0, sizeof(*queue));
	pthread_mutex_init(&queue->mutex, NULL);
	pthread_cond_init(&queue->has_item, NULL);
	pthread_cond_init(&queue->has_room, NULL);
	queue->producers = producers;
}

void queue_put(struct queue *queue, void *item)
{
	pthread_mutex_lock(&queue->mutex);
	while (queue->count == QUEUE_SLOTS)
		pthread_cond_wait(&queue->has_room, &queue->mutex);
	queue->items[(queue->head + queue->count++) % QUEUE_SLOTS] = item;
	pthread_cond_signal(&queue->has_item);
	pthread_mutex_unlock(&queue->mutex);
}

void *queue_take(struct queue *queue)
{
	void *item = NULL;

	pthread_mutex_lock(&queue->mutex);
	while (!queue->count && queue->producers)
		pthread_cond_wait(&queue->has_item, &queue->mutex);
	if (queue->count) {
		item = queue->items[queue->head];
		queue->head = (queue->head + 1) % QUEUE_SLOTS;
		queue->count--;
		pthread_cond_signal(&queue->has_room);
	}
	pthread_mutex_unlock(&queue->mutex);
	return item;
}

void queue_leave(struct queue *queue)
{
	pthread_mutex_lock(&queue->mutex);
	queue->producers--;
	if (!queue->producers)
		pthread_cond_broadcast(&queue->has_item);
	pthread_mutex_unlock(&queue->mutex);
}
