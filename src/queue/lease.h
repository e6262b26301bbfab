/* What a node does with a task message that it has been given, from its delivery to its end. A pure state machine: the
 * caller sends what an action says, and reports what happens as an event.
 *
 * Messages and answers may be lost, repeated and delayed, and the server may deliver a task again at any time. One rule
 * makes the rest safe: a record is published on condition that there is none, so the server takes the first record of a
 * task and refuses the others. An acknowledgement proves nothing and protects nothing.
 *
 * A record carries a nonce of the node and the attempt. If the answer to its publication is lost, the same record with
 * the same nonce is published again. If that is refused, the nonce in the server's record shows whose record it is.
 *
 * Missing here: the marker for suspects, a state between LOOKING and RUNNING.
 */
#ifndef GD_QUEUE_LEASE_H
#define GD_QUEUE_LEASE_H

enum gd__lease_state {
    GD__LEASE_NEW = 0,    /* delivered */
    GD__LEASE_LOOKING,    /* is there a record already? */
    GD__LEASE_RUNNING,    /* its tasks run on this node */
    GD__LEASE_PUBLISHING, /* the record is in the node's own journal, and on its way to the server */
    GD__LEASE_COMPARING,  /* the server refused the record: whose record does it have? */
    GD__LEASE_ENDED,
    GD__LEASE_STATES,
};

enum gd__lease_event {
    GD__LEASE_BEGIN = 0, /* the node has time for it */
    GD__LEASE_NO_ANSWER, /* the answer to the last action did not come in time, or was "try again" */
    GD__LEASE_NO_RECORD, /* LOOK or READ: the server has no record */
    GD__LEASE_OURS,      /* LOOK or READ: it has one with the nonce of this attempt */
    GD__LEASE_ANOTHERS,  /* LOOK or READ: it has one with another nonce */
    GD__LEASE_RAN,       /* the tasks have ended, and the node's journal has their records */
    GD__LEASE_ACCEPTED,  /* PUBLISH: the server has stored the record */
    GD__LEASE_REFUSED,   /* PUBLISH: the server has a record already */
    GD__LEASE_DRAIN,     /* the node is to stop: what has not begun goes back */
    GD__LEASE_GIVE_UP,   /* the node stops now */
    GD__LEASE_EVENTS,
};

enum gd__lease_action {
    GD__LEASE_NOTHING = 0,
    GD__LEASE_LOOK,     /* read the record */
    GD__LEASE_START,    /* run the tasks */
    GD__LEASE_PUBLISH,  /* publish the record, with the same nonce every time */
    GD__LEASE_READ,     /* read the record again */
    GD__LEASE_ACK_WON,  /* acknowledge the message: the record of this node counts */
    GD__LEASE_ACK_LOST, /* acknowledge the message: the record of another attempt counts */
    GD__LEASE_NAK,      /* give the message back, for another node */
    GD__LEASE_LEAVE,    /* do nothing: the server delivers it again, and the journal has the record */
};

/* Changes the state, and returns what to do. An event that does not belong to the state, such as an answer that comes too
 * late, changes nothing. Answers must be matched to their requests before: an answer to an earlier request is no event. */
enum gd__lease_action gd__lease_step(enum gd__lease_state *state, enum gd__lease_event event);

#endif
