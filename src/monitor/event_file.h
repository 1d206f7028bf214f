/* TensorBoard's event file of a run: events.out.tfevents.* in the run folder.
 *
 * The training thread appends records to a buffer of fixed size; another thread
 * writes them to the file. If the file system is too slow, records are dropped
 * and counted. */
#ifndef VP_MONITOR_EVENT_FILE_H
#define VP_MONITOR_EVENT_FILE_H

#include "monitor/metric.h"

struct vp_event_file;

/* `resumed` is the step after which the run continues; 0: a new run. A resumed
 * run makes readers ignore later steps of earlier files. An evaluation after
 * step `resumed` may appear twice, with the same value. */
enum vp_status vp_event_file_open(const char *folder, int64_t resumed,
                                  struct vp_event_file **out,
                                  struct vp_err *err);
void vp_event_file_close(struct vp_event_file *file);

/* The caller holds a lock during the next three functions; they neither
 * allocate nor wait. */

/* Appends a step. Returns true if the buffer should be written soon. */
bool vp_event_file_step(struct vp_event_file *file,
                        const struct vp_metrics *metrics, double wall_time);
/* Appends an evaluation. */
void vp_event_file_eval(struct vp_event_file *file, int64_t step, double loss,
                        double wall_time);
/* Hands the records so far to vp_event_file_write(). Does nothing while earlier
 * ones are not written yet. */
void vp_event_file_take(struct vp_event_file *file);

/* Writes the records that were handed over; called without the lock. On failure
 * they are lost. */
enum vp_status vp_event_file_write(struct vp_event_file *file,
                                   struct vp_err *err);
/* Returns the number of records that did not fit the buffer. */
int64_t vp_event_file_n_dropped(const struct vp_event_file *file);

#endif
