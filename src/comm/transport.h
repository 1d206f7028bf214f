/* The tables of functions that a transport implements. Private to comm and to
 * plugins. */
#ifndef VP_COMM_TRANSPORT_H
#define VP_COMM_TRANSPORT_H

#include "comm/comm.h"

#include <pthread.h>

/* Changes with anything in this file, in comm.h or in device/driver.h. */
#define VP_COMM_ABI 7

struct vp_world_ops {
    const char *name;
    /* Called before channels and groups are freed: waits until all processes
     * are here. After an error it ends the process. */
    void (*leave)(struct vp_world *world);
    void (*free)(struct vp_world *world);
    bool (*is_mine)(const struct vp_world *world, int rank);
    bool (*is_apart)(const struct vp_world *world, int a, int b);
    void (*poll)(struct vp_world *world);
    /* Sends the status of vp_world_abort() to the other processes. */
    void (*tell_abort)(struct vp_world *world, enum vp_status status);
    /* Finds the lowest rank that failed, and its status; VP_OK if none did. */
    enum vp_status (*agree)(struct vp_world *world, enum vp_status status,
                            struct vp_limit limit, int *rank_out,
                            enum vp_status *agreed_out);
    enum vp_status (*share)(struct vp_world *world, void *bytes, size_t n,
                            struct vp_limit limit);
    enum vp_status (*channel_create)(struct vp_world *world,
                                     const struct vp_link *link,
                                     struct vp_channel **out);
    enum vp_status (*group_create)(struct vp_world *world, const int *ranks,
                                   int n_members, size_t n_bytes,
                                   struct vp_group **out);
    /* NULL unless the transport accesses memory of devices: */
    enum vp_status (*meet)(struct vp_world *world, const char *address,
                           struct vp_limit limit);
    bool (*is_direct)(const struct vp_world *world, int a, int b);
    const char *(*indirect_reason)(const struct vp_world *world);
    void (*set_device)(struct vp_world *world, struct vp_device *device);
    enum vp_status (*direct_group_create)(struct vp_world *world,
                                          const int *ranks, int n_members,
                                          struct vp_group **out);
    enum vp_status (*direct_gather_create)(struct vp_world *world,
                                           const int *ranks, int n_members,
                                           struct vp_group **out);
};

struct vp_channel_ops {
    void (*free)(struct vp_channel *channel);
    enum vp_status (*acquire)(struct vp_channel *channel, uint64_t j,
                              struct vp_limit limit, void **buffer_out);
    void (*post)(struct vp_channel *channel, uint64_t j, size_t n_body);
    enum vp_status (*wait)(struct vp_channel *channel, uint64_t j,
                           struct vp_limit limit, void **buffer_out);
    void (*release)(struct vp_channel *channel, uint64_t j);
};

struct vp_group_ops {
    void (*free)(struct vp_group *group);
    enum vp_status (*exchange)(struct vp_group *group, int member,
                               const void *mine, size_t n_bytes, void *all,
                               struct vp_limit limit);
    void (*set_adder)(struct vp_group *group, int member, vp_adder_fn add,
                      void *ctx);
    void (*set_fast)(struct vp_group *group);
    /* Optional; NULL if the transport has no parts and gathers: */
    enum vp_status (*set_parts)(struct vp_group *group,
                                const struct vp_sum_part *parts, int n_parts);
    void (*gather)(struct vp_group *group, int member,
                   const struct vp_gather *gather);
    enum vp_status (*end_gather)(struct vp_group *group, int member,
                                 struct vp_limit limit);
    enum vp_status (*gather_direct)(struct vp_group *group, const void *mine,
                                    size_t n_bytes, void *all, void *stream);
    enum vp_status (*cut)(struct vp_group *group, const int64_t *ends,
                          int n_pieces);
    /* Sets the length of the only piece of a group that was not cut. */
    enum vp_status (*set_length)(struct vp_group *group, int member, int64_t n);
    void (*set_terms)(struct vp_group *group, int member,
                      const struct vp_term *terms, int n_terms);
    void (*offer)(struct vp_group *group, int member, int piece);
    void (*offer_rest)(struct vp_group *group, int member);
    bool (*progress)(struct vp_group *group, int member);
    enum vp_status (*await)(struct vp_group *group, int member,
                            struct vp_limit limit, bool *done_out);
};

/* First members of the structs in which a transport keeps its worlds, channels
 * and groups. */
struct vp_world {
    const struct vp_world_ops *ops;
    int n_ranks, lead, n_here;
    atomic_bool stop;
    pthread_mutex_t lock; /* protects status and text */
    enum vp_status status;
    struct vp_err err;
    struct vp_channel *channels;
    struct vp_group *groups;
    int links; /* current set; see vp_world_begin_links() */
};

struct vp_channel {
    const struct vp_channel_ops *ops;
    struct vp_world *world;
    struct vp_channel *next;
    int links;
};

struct vp_group {
    const struct vp_group_ops *ops;
    struct vp_world *world;
    struct vp_group *next;
    int links;
};

/* The functions that a plugin exports. They are looked up by name in each
 * library, as several plugins may be loaded. vp_plugin_comm_version() returns
 * the VP_COMM_ABI of its build. */
#define VP_EXPORT __attribute__((visibility("default")))
VP_EXPORT int vp_plugin_comm_version(void);
VP_EXPORT void vp_plugin_describe(char *text, size_t n_bytes);
VP_EXPORT enum vp_status vp_plugin_join(const struct vp_processes *self,
                                        int n_ranks, const int *processes,
                                        struct vp_world **out,
                                        struct vp_err *err);

/* Creates a channel between threads; other transports use it for a channel with
 * both ends in one process. */
enum vp_status vp_local_channel_create(struct vp_world *world,
                                       const struct vp_link *link,
                                       struct vp_channel **out);

/* ---- Sums: functions for all transports --------------------------------- */

/* Sorts the terms: those that are added come first, in their order. Returns the
 * number of these. */
int vp_terms_sort(struct vp_term *terms, int n_terms);
/* Adds elements [begin, end) of the first n_added terms into the first one, and
 * copies the sum to all other terms. */
void vp_terms_add(const struct vp_term *terms, int n_added, int n_terms,
                  int64_t begin, int64_t end);

#endif
