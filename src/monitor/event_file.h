/* TensorBoard's event file of a run: events.out.tfevents.* in the run folder.
 *
 * The thread that trains appends records to a buffer of fixed size; another thread
 * writes them to the file. Where the file system does not keep up, records are
 * dropped, and the first failure is kept for a message. */
#ifndef VP_MONITOR_EVENT_FILE_H
#define VP_MONITOR_EVENT_FILE_H

#include "monitor/metric.h"

struct vp_event_file;

/* `resumed`: the step that the run goes on after; 0: from the start. Readers then
 * drop what earlier files say of later steps. An evaluation after that very step
 * may be there twice, with the same value. */
enum vp_status vp_event_file_open(const char *folder, int64_t resumed,
                                  struct vp_event_file **out,
                                  struct vp_err *err);
void vp_event_file_close(struct vp_event_file *file);

/* The two below are called with a lock of the caller's held; neither allocates
 * or waits. */

/* Appends a step. Returns true if the buffer should be written soon. */
bool vp_event_file_step(struct vp_event_file *file,
                        const struct vp_metrics *metrics, double wall_time);
/* Appends an evaluation. */
void vp_event_file_eval(struct vp_event_file *file, int64_t step, double loss,
                        double wall_time);
/* Takes the records so far, for vp_event_file_write(). */
void vp_event_file_take(struct vp_event_file *file);

/* Writes what was taken, without the lock. */
enum vp_status vp_event_file_write(struct vp_event_file *file,
                                   struct vp_err *err);
/* Records that did not fit the buffer. */
int64_t vp_event_file_n_dropped(const struct vp_event_file *file);

#endif
