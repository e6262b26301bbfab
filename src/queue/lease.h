/* What a node does with a task message that it has been given, from its delivery to its end. A pure state machine: the
 * caller sends what an action says, and reports what happens as an event.
 *
 * Messages and answers may be lost, repeated and delayed, and the server may deliver a task again at any time. One rule
 * makes the rest safe: a record is published only if there is none yet. So the server takes the first record of a task
 * and refuses the others. Safety never depends on acknowledgements.
 *
 * A record carries a nonce of the node and the attempt. If the answer to its publication is lost, the same record with
 * the same nonce is published again. If that is refused, the nonce in the server's record shows whose record it is.
 *
 * A suspect is a message that was delivered before: perhaps one of its tasks has killed a node. A marker on the server
 * says whether it was begun, and is written before it is begun again. If nothing of it was run after all, the marker is
 * taken back before the message is given back. If its task has killed workers of this node, these deaths are counted in the
 * marker instead, also if it was not a suspect before. A suspect with too many markers is not run: its record is a failure.
 *
 * If the record that counts says that some tasks have moved, these are published in messages of their own before the
 * message is acknowledged. Any node that gets the message again does the same. Before the acknowledgement the record is
 * read once more: a server that lost its last second may have the record of another node now, and that record may
 * list other tasks as moved.
 *
 * Such a server may also have lost the task message, and may give its sequence to another one. A token names a delivery by
 * numbers only, so an old token would then acknowledge the other message. So a message is acknowledged only over the
 * connection that it was delivered on. If that was lost, ACK gives the message back instead, with a delay. A wrong message
 * then runs once more at worst. The right one is delivered again, and the node that gets it finds the record.
 */
#ifndef GD_QUEUE_LEASE_H
#define GD_QUEUE_LEASE_H

enum gd__lease_state {
    GD__LEASE_NEW = 0,    /* delivered */
    GD__LEASE_LOOKING,    /* is there a record already? */
    GD__LEASE_SUSPECTED,  /* its marker is being read, or it waits for its turn */
    GD__LEASE_MARKING,    /* its marker is on its way to the server */
    GD__LEASE_RUNNING,    /* its tasks run on this node */
    GD__LEASE_MARKED,     /* the same, after a marker was written */
    GD__LEASE_UNMARKING,  /* its marker is taken back, or replaced by one that counts the deaths of workers */
    GD__LEASE_PUBLISHING, /* the record is in the node's own journal, and on its way to the server */
    GD__LEASE_COMPARING,  /* the server refused the record: whose record does it have? */
    GD__LEASE_MOVING,     /* the tasks that have moved are on their way to the server */
    GD__LEASE_CONFIRMING, /* these tasks are there. Is the record still the same? */
    GD__LEASE_ENDED,
    GD__LEASE_STATES,
};

enum gd__lease_event {
    GD__LEASE_BEGIN = 0,     /* the node has time for it */
    GD__LEASE_AGAIN,         /* it was delivered to this node again while it waited to be begun, or the server has a
                              * record of an earlier run by now */
    GD__LEASE_NO_ANSWER,     /* the answer to the last action did not come in time, or was "try again" */
    GD__LEASE_NO_RECORD,     /* LOOK or READ: the server has no record */
    GD__LEASE_SUSPECT,       /* LOOK: the server has no record, and the message may have killed a node */
    GD__LEASE_OURS,          /* LOOK or READ: it has one with the nonce of this attempt */
    GD__LEASE_OURS_PART,     /* the same, and some tasks have moved */
    GD__LEASE_ANOTHERS,      /* LOOK or READ: it has one with another nonce */
    GD__LEASE_ANOTHERS_PART, /* the same, and some tasks have moved */
    GD__LEASE_SAME,          /* READ: it still has the record whose tasks have moved */
    GD__LEASE_TURN,          /* READ_MARKER: it may be begun */
    GD__LEASE_CONVICTED,     /* READ_MARKER: it is not run; its record says so: a failure, or its tasks move */
    GD__LEASE_MARKER_OK,     /* MARK or UNMARK: done; READ_MARKER: the marker is that of this attempt */
    GD__LEASE_MARKER_LOST,   /* MARK or UNMARK: another node has written a marker */
    GD__LEASE_RAN,           /* the tasks have ended, and the node's journal has their records */
    GD__LEASE_NOT_RUN,       /* no task has ended, and none is running: it goes back */
    GD__LEASE_CHARGED,       /* the same, and its task has killed workers of this node */
    GD__LEASE_ACCEPTED,      /* PUBLISH: the server has stored the record */
    GD__LEASE_ACCEPTED_PART, /* the same, and some tasks have moved */
    GD__LEASE_REFUSED,       /* PUBLISH: the server has a record already */
    GD__LEASE_MOVED,         /* MOVE: the tasks that have moved are on the server */
    GD__LEASE_DRAIN,         /* the node is to stop: what has not begun goes back */
    GD__LEASE_GIVE_UP,       /* the node stops now */
    GD__LEASE_EVENTS,
};

enum gd__lease_action {
    GD__LEASE_NOTHING = 0,
    GD__LEASE_LOOK,        /* read the record */
    GD__LEASE_READ_MARKER, /* read the marker */
    GD__LEASE_MARK,        /* write the next marker, on condition that it is still the one that was read */
    GD__LEASE_START,       /* run the tasks */
    GD__LEASE_UNMARK,      /* replace the marker by the one before it, with the deaths of workers that it has caused, on
                            * condition that it is still ours, or that there is none if this node has written none */
    GD__LEASE_PUBLISH,     /* publish the record, with the same nonce every time */
    GD__LEASE_READ,        /* read the record again */
    GD__LEASE_MOVE,        /* publish the tasks that have moved. Their number, and whose record counts, is known */
    GD__LEASE_MOVE_WON,    /* the same: the record of this node counts */
    GD__LEASE_MOVE_LOST,   /* the same: the record of another attempt counts */
    GD__LEASE_ACK,         /* acknowledge the message; if the connection was lost since the delivery: give it back */
    GD__LEASE_ACK_WON,     /* the same: the record of this node counts */
    GD__LEASE_ACK_LOST,    /* the same: the record of another attempt counts */
    GD__LEASE_NAK,         /* give the message back, for another node */
    GD__LEASE_LEAVE, /* do nothing: the server delivers it again, and the journal has the record, if there is one */
};

/* Changes the state, and returns what to do. An event that does not belong to the state, such as an answer that comes too
 * late, changes nothing. Answers must be matched to their requests before: an answer to an earlier request is no event. */
enum gd__lease_action gd__lease_step(enum gd__lease_state *state, enum gd__lease_event event);

#endif
