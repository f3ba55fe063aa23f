------------------------------- MODULE Collect -------------------------------
(***************************************************************************)
(* Writers of a catalog and the collector that deletes beside them.        *)
(*                                                                         *)
(* A step of a writer is one transaction. It locks the rows it relies on,  *)
(* and the collector's writes change those same rows, so a transaction can *)
(* stand here as one atomic step. README.md says what is left out.         *)
(***************************************************************************)
EXTENDS Naturals, FiniteSets, TLC

CONSTANTS
  Objects,      \* addresses in the storage: data, ranges and metaranges alike
  Branches,     \* names of refs; a tag is a branch that nobody commits on
  MaxCommits,   \* commits are numbered in the order in which they are written
  MaxLeases,    \* how many commits can be leased at the same time
  MaxRuns,      \* how many times an apply can start
  Expiring,     \* whether commits are taken out of the history meanwhile
  Bug           \* "none", or the name of a planted bug

VARIABLES
  \* The database.
  state,        \* of each commit: unborn, live, provisional, condemned
  past,         \* of each commit: itself and its ancestors
  need,         \* of each commit: the objects that it needs
  head,         \* of each branch: its commit, 0 if there is no such branch
  staged,       \* of each branch: the objects of its staged entries
  leases,       \* the commits under a lease
  part,         \* of each object: the state of its partition
  \* The storage.
  exists,       \* the objects that are there
  \* The collector. `planLive`, `planned` and `seen` are the plan.
  pc,           \* where it is
  runs,         \* how many applies have started
  listed,       \* what the listing found
  planLive,     \* the commits that were live when the plan was made, by id
  planned,      \* the objects that the plan wants to delete
  seen,         \* how many commits the plan knew; only planted bugs ask
  todo,         \* commits to mark; after confirm: commits to promote
  rounds,       \* how often this apply has marked; only planted bugs ask
  sweep,        \* what confirm left of the plan
  doomed,       \* what may be deleted from now on, by this run and older ones
  late,         \* the sweep of a run that lost the lock; only a planted bug asks
  checked,      \* a ref that was checked and not locked; only a planted bug asks
  exact         \* whether each plan was right when it was made

database  == <<state, past, need, head, staged, leases, part>>
plan      == <<listed, planLive, planned, seen>>
apply     == <<todo, rounds, sweep>>
collector == <<pc, runs, plan, apply, late, exact>>
vars      == <<database, exists, collector, doomed, checked>>

Commits == 1..MaxCommits
Symmetry == Permutations(Objects) \cup Permutations(Branches)

Bugs == {"none", "confirm_skipped", "confirm_by_time", "database_before_listing",
         "leases_forgotten", "open_partitions_forgotten", "staged_forgotten",
         "only_planned_condemned", "no_fixpoint", "promoted_one_by_one", "lock_unchecked",
         "parents_unchecked", "provisional_accepted", "refs_unlocked",
         "partition_unchecked", "copied_unseen"}

ASSUME Bug \in Bugs

-----------------------------------------------------------------------------
(* What the database says.                                                 *)

In(s)     == {c \in Commits : state[c] = s}
Known     == {c \in Commits : state[c] # "unborn"}
Newest    == Cardinality(Known)
Existing  == {b \in Branches : head[b] # 0}
Open      == {o \in Objects : part[o] = "open"}
Staged    == UNION {staged[b] : b \in Branches}

Tips      == {head[b] : b \in Existing}
Past(cs)  == UNION {past[c] : c \in cs}
Needs(cs) == UNION {need[c] : c \in cs}
Live      == Past(Tips \cup leases)
InUse     == Needs(Live) \cup Staged

(* What may be named by a ref, a lease or a new commit.                    *)
Held(c) ==
  \/ state[c] = "live"
  \/ Bug = "provisional_accepted" /\ state[c] = "provisional"

-----------------------------------------------------------------------------
(* The writers.                                                            *)

(* Bytes go into an open partition, always under a fresh address. A        *)
(* partition of one object is the general case: one with many closes like  *)
(* many of these.                                                          *)
Upload(o) ==
  /\ part[o] = "unopened"
  /\ part' = [part EXCEPT ![o] = "open"]
  /\ exists' = exists \cup {o}
  /\ UNCHANGED <<state, past, need, head, staged, leases, collector, doomed, checked>>

(* By its owner, or by a collector that finds it overdue.                  *)
Close(o) ==
  /\ part[o] = "open"
  /\ part' = [part EXCEPT ![o] = "closed"]
  /\ UNCHANGED <<state, past, need, head, staged, leases, exists, collector, doomed, checked>>

Fresh(o) ==
  \/ part[o] = "open"
  \/ Bug = "partition_unchecked" /\ part[o] = "closed"

Visible(b) ==
  IF Bug = "copied_unseen" THEN Needs(Known) ELSE need[head[b]]

(* Put: the bytes are there, now the row. Copy: by reference.              *)
Stage(b, o) ==
  /\ b \in Existing
  /\ o \notin staged[b]
  /\ Fresh(o) \/ o \in Visible(b)
  /\ staged' = [staged EXCEPT ![b] = @ \cup {o}]
  /\ UNCHANGED <<state, past, need, head, leases, part, exists, collector, doomed, checked>>

Unstage(b, o) ==
  /\ o \in staged[b]
  /\ staged' = [staged EXCEPT ![b] = @ \ {o}]
  /\ UNCHANGED <<state, past, need, head, leases, part, exists, collector, doomed, checked>>

(* The final transaction of a commit or a merge. It takes what was sealed  *)
(* (more may have been staged since), keeps or drops what the branch had,  *)
(* adds what it takes from a merged commit and containers that it wrote.   *)
Commit(b, sealed, containers, merged, kept) ==
  LET n == Newest + 1
      parents == {head[b]} \cup merged
  IN /\ \A o \in containers : Fresh(o)
     /\ Bug = "parents_unchecked" \/ \A c \in parents : Held(c)
     /\ state' = [state EXCEPT ![n] = "live"]
     /\ past' = [past EXCEPT ![n] = {n} \cup Past(parents)]
     /\ need' = [need EXCEPT ![n] = sealed \cup containers \cup Needs(kept)]
     /\ head' = [head EXCEPT ![b] = n]
     /\ staged' = [staged EXCEPT ![b] = @ \ sealed]
     /\ UNCHANGED <<leases, part, exists, collector, doomed, checked>>

AnyCommit(b) ==
  /\ b \in Existing
  /\ Newest < MaxCommits
  /\ \E sealed \in SUBSET staged[b], containers \in {{}} \cup {{o} : o \in Open} :
       \E merged \in {{}} \cup {{c} : c \in Known \ {head[b]}} :
         \E kept \in {merged, merged \cup {head[b]}} :
           Commit(b, sealed, containers, merged, kept)

(* Create a branch, or reset it: to any commit that is there, by its id.   *)
Point(b, c) ==
  /\ head[b] # c
  /\ \/ Bug # "refs_unlocked" /\ Held(c) /\ UNCHANGED checked
     \/ Bug = "refs_unlocked" /\ checked = <<b, c>> /\ checked' = <<>>
  /\ head' = [head EXCEPT ![b] = c]
  /\ staged' = [staged EXCEPT ![b] = {}]
  /\ UNCHANGED <<state, past, need, leases, part, exists, collector, doomed>>

Check(b, c) ==
  /\ Bug = "refs_unlocked"
  /\ checked = <<>>
  /\ Held(c)
  /\ checked' = <<b, c>>
  /\ UNCHANGED <<database, exists, collector, doomed>>

Delete(b) ==
  /\ b \in Existing
  /\ head' = [head EXCEPT ![b] = 0]
  /\ staged' = [staged EXCEPT ![b] = {}]
  /\ UNCHANGED <<state, past, need, leases, part, exists, collector, doomed, checked>>

Lease(c) ==
  /\ c \notin leases
  /\ Cardinality(leases) < MaxLeases
  /\ Held(c)
  /\ leases' = leases \cup {c}
  /\ UNCHANGED <<state, past, need, head, staged, part, exists, collector, doomed, checked>>

Lapse(c) ==
  /\ c \in leases
  /\ leases' = leases \ {c}
  /\ UNCHANGED <<state, past, need, head, staged, part, exists, collector, doomed, checked>>

(* Expire a commit: its children get its parents.                          *)
Expire(c) ==
  /\ Expiring
  /\ \E d \in Commits \ {c} : c \in past[d]
  /\ past' = [d \in Commits |-> IF d = c THEN past[d] ELSE past[d] \ {c}]
  /\ UNCHANGED <<state, need, head, staged, leases, part, exists, collector, doomed, checked>>

Write ==
  \/ \E o \in Objects : Upload(o) \/ Close(o)
  \/ \E b \in Branches, o \in Objects : Stage(b, o) \/ Unstage(b, o)
  \/ \E b \in Branches : AnyCommit(b) \/ Delete(b)
  \/ \E b \in Branches, c \in Commits : Point(b, c) \/ Check(b, c)
  \/ \E c \in Commits : Lease(c) \/ Lapse(c) \/ Expire(c)

-----------------------------------------------------------------------------
(* The collector, as it reads.                                             *)

LiveSeen == IF Bug = "leases_forgotten" THEN Past(Tips) ELSE Live

StagedSeen == IF Bug = "staged_forgotten" THEN {} ELSE Staged

Count == IF Bug \in {"confirm_by_time", "only_planned_condemned"} THEN Newest ELSE 0

(* Every open partition may be overdue when the plan is made, so the plan  *)
(* is no protection to any of them.                                        *)
Candidates == (Objects \ Needs(LiveSeen)) \ StagedSeen

DeadSeen ==
  LET dead == (Known \ In("condemned")) \ LiveSeen
  IN IF Bug = "only_planned_condemned" THEN (dead \cap 1..seen) \ planLive ELSE dead

(* What lives now and did not live when the plan was made: by id.          *)
Returned ==
  IF Bug = "confirm_by_time" THEN {c \in LiveSeen : c > seen} ELSE LiveSeen \ planLive

Dropped ==
  Needs(Returned) \cup StagedSeen
    \cup (IF Bug = "open_partitions_forgotten" THEN {} ELSE Open)

-----------------------------------------------------------------------------
(* The plan: list the objects first, then read the database in one         *)
(* snapshot. Between a plan and its apply any time can pass.               *)

Observe ==
  /\ pc \in {"idle", "finished", "crashed"}
  /\ runs < MaxRuns
  /\ pc' = "observed"
  /\ IF Bug = "database_before_listing"
     THEN listed' = {} /\ planLive' = LiveSeen /\ planned' = Candidates
     ELSE listed' = exists /\ planLive' = {} /\ planned' = {}
  /\ seen' = 0
  /\ UNCHANGED <<database, exists, runs, apply, doomed, late, checked, exact>>

Decide ==
  /\ pc = "observed"
  /\ pc' = "planned"
  /\ IF Bug = "database_before_listing"
     THEN planLive' = planLive /\ planned' = planned \cap exists
     ELSE planLive' = LiveSeen /\ planned' = Candidates \cap listed
  /\ listed' = {}
  /\ seen' = Count
  /\ exact' = (exact /\ planned' \cap InUse = {})
  /\ UNCHANGED <<database, exists, runs, apply, doomed, late, checked>>

-----------------------------------------------------------------------------
(* Apply. It can start again with the same plan, after a crash or without. *)

Release(cs) == state' = [c \in Commits |-> IF c \in cs THEN "live" ELSE state[c]]

Start ==
  /\ pc \in {"planned", "finished", "crashed"}
  /\ runs < MaxRuns
  /\ pc' = "condemn"
  /\ runs' = runs + 1
  /\ Release(In("provisional"))
  /\ rounds' = 0
  /\ UNCHANGED <<past, need, head, staged, leases, part, exists>>
  /\ UNCHANGED <<plan, todo, sweep, doomed, late, checked, exact>>

(* One snapshot. Either some dead commit has no mark yet, or this was the  *)
(* confirm read.                                                           *)
Look ==
  LET unmarked == DeadSeen \cap In("live")
      again == unmarked # {} /\ ~(Bug = "no_fixpoint" /\ rounds > 0)
  IN /\ pc = "condemn"
     /\ IF again
        THEN /\ pc' = "mark"
             /\ todo' = unmarked
             /\ sweep' = {}
        ELSE /\ pc' = "confirmed"
             /\ todo' = In("provisional") \ LiveSeen
             /\ sweep' = (planned \ Dropped) \cap exists
     /\ UNCHANGED <<database, exists, runs, plan, rounds, doomed, late, checked, exact>>

Mark(c) ==
  LET last == todo = {c}
      blind == last /\ Bug = "confirm_skipped"
  IN /\ pc = "mark"
     /\ c \in todo
     /\ state' = [state EXCEPT ![c] = IF @ = "live" THEN "provisional" ELSE @]
     /\ pc' = IF blind THEN "confirmed" ELSE IF last THEN "condemn" ELSE "mark"
     /\ todo' = IF blind THEN In("provisional") \cup {c} ELSE todo \ {c}
     /\ sweep' = IF blind THEN planned \cap exists ELSE {}
     /\ rounds' = IF last /\ Bug = "no_fixpoint" THEN 1 ELSE 0
     /\ UNCHANGED <<past, need, head, staged, leases, part, exists>>
     /\ UNCHANGED <<runs, plan, doomed, late, checked, exact>>

GiveBack ==
  /\ pc = "confirmed"
  /\ pc' = "promote"
  /\ Release(In("provisional") \ todo)
  /\ UNCHANGED <<past, need, head, staged, leases, part, exists>>
  /\ UNCHANGED <<runs, plan, apply, doomed, late, checked, exact>>

(* All in one transaction. From here on condemned is terminal.             *)
Promote ==
  \E cs \in IF Bug = "promoted_one_by_one" /\ todo # {} THEN {{c} : c \in todo} ELSE {todo} :
    /\ pc = "promote"
    /\ state' = [c \in Commits |-> IF c \in cs THEN "condemned" ELSE state[c]]
    /\ IF cs = todo
       THEN /\ pc' = "finished"
            /\ todo' = {}
            /\ sweep' = {}
            /\ doomed' = doomed \cup sweep
       ELSE /\ pc' = pc
            /\ todo' = todo \ cs
            /\ UNCHANGED <<sweep, doomed>>
    /\ UNCHANGED <<past, need, head, staged, leases, part, exists>>
    /\ UNCHANGED <<runs, plan, rounds, late, checked, exact>>

(* Deletes of a run can come at any time: it may have crashed, and the     *)
(* next run may have taken the lock already.                               *)
Sweep(o) ==
  /\ o \in doomed
  /\ exists' = exists \ {o}
  /\ doomed' = doomed \ {o}
  /\ UNCHANGED <<database, collector, checked>>

Crash ==
  /\ runs < MaxRuns
  /\ pc \in {"condemn", "mark", "confirmed", "promote"}
  /\ pc' = "crashed"
  /\ todo' = {}
  /\ sweep' = {}
  /\ late' = IF Bug = "lock_unchecked" THEN sweep ELSE {}
  /\ UNCHANGED <<database, exists, runs, plan, rounds, doomed, checked, exact>>

(* The old run was only slow. Its marks are released, its update finds no  *)
(* row, and it goes on to delete.                                          *)
Return ==
  /\ late # {}
  /\ pc \notin {"crashed", "observed", "planned"}
  /\ doomed' = doomed \cup late
  /\ late' = {}
  /\ UNCHANGED <<database, exists, pc, runs, plan, apply, checked, exact>>

Collect ==
  \/ Observe \/ Decide \/ Start \/ Look \/ GiveBack \/ Promote \/ Crash \/ Return
  \/ \E c \in Commits : Mark(c)
  \/ \E o \in Objects : Sweep(o)

-----------------------------------------------------------------------------
(* One commit with one object is there, and nothing names it.              *)
Init ==
  \E first \in Objects :
    /\ state = [c \in Commits |-> IF c = 1 THEN "live" ELSE "unborn"]
    /\ past = [c \in Commits |-> IF c = 1 THEN {1} ELSE {}]
    /\ need = [c \in Commits |-> IF c = 1 THEN {first} ELSE {}]
    /\ head = [b \in Branches |-> 0]
    /\ staged = [b \in Branches |-> {}]
    /\ leases = {}
    /\ part = [o \in Objects |-> IF o = first THEN "closed" ELSE "unopened"]
    /\ exists = {first}
    /\ pc = "idle" /\ runs = 0
    /\ listed = {} /\ planLive = {} /\ planned = {} /\ seen = 0
    /\ todo = {} /\ rounds = 0 /\ sweep = {}
    /\ doomed = {} /\ late = {} /\ checked = <<>> /\ exact = TRUE

Next == Write \/ Collect

(* After the last run has deleted all it may, nothing more can go wrong.   *)
Busy == runs < MaxRuns \/ pc # "finished" \/ doomed \cup late # {}

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(* What must hold.                                                         *)

(* Nothing dangles: what a ref, a lease or a staged entry reaches exists.  *)
NothingDangles == InUse \subseteq exists

(* A commit that a ref may still name has all its objects, also while      *)
(* nothing names it.                                                       *)
LiveIsWhole == Needs(In("live") \cup In("provisional")) \subseteq exists

(* No ref and no lease names a condemned commit or a descendant of one.    *)
NothingReachesCondemned == Live \cap In("condemned") = {}

(* Nobody can name a descendant of a condemned commit any more, so saving  *)
(* need only check the parents.                                            *)
CondemnedIsClosed == Past(In("live")) \cap In("condemned") = {}

(* A plan shows a person nothing that was in use when it was made.         *)
PlanIsExact == exact

(* A run that finished leaves no mark behind.                              *)
MarksEnd == pc = "finished" => In("provisional") = {}

(* Each of these is false, and TLC must say so: the model does what it is  *)
(* meant to do. Something is deleted; a commit that came back is dropped   *)
(* from a plan that keeps others; a mark is taken back by confirm; a       *)
(* second run meets what the first one condemned.                          *)
NeverDeleted   == \A o \in Objects : part[o] # "unopened" => o \in exists
NeverReturned  == ~(pc = "promote" /\ Returned # {} /\ todo # {})
NeverGivenBack == ~(pc = "confirmed" /\ In("provisional") # todo)
NeverAgain     == ~(runs = 2 /\ In("condemned") # {})
=============================================================================
