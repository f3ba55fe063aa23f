-------------------------------- MODULE Ledger --------------------------------
(***************************************************************************)
(* Online hard delete: the ledger, the staging tokens, the cleaner and the *)
(* reaper, beside writers, an offline run and a clone of the database.     *)
(*                                                                         *)
(* One branch is enough: staging of one branch never shows the addresses   *)
(* that only another one has staged. All commits stay; Collect.tla is      *)
(* about commits that die. A transaction is a function from a database to  *)
(* a database, and one step. What works in several transactions remembers  *)
(* nothing between them, so a crash is to never take the next step.        *)
(***************************************************************************)
EXTENDS Naturals, TLC

CONSTANTS
  Paths,        \* where entries are
  Addresses,    \* what the catalog can give to new bytes, each one once
  Outside,      \* addresses of others, which can be staged where they are
  MaxTokens,    \* staging tokens are numbered in the order of their birth
  MaxCommits,
  Linking,      \* whether upload tokens are given out
  Running,      \* whether an offline run works as well
  Cloning,      \* whether the database is copied at some moment
  Bug           \* "none", or the name of a planted bug

VARIABLES
  db,           \* of "original" and "clone": the tables, see Empty
  object,       \* of each address: unborn, there, doomed, swept, reaped
  clone,        \* none; known: the storage can tell it from its home; unknown
  ahead,        \* whether the original has counted an epoch since it was cloned
  touched,      \* whether a reaper ever deleted what a commit held
  seen,         \* what a copy or a commit read too early; only planted bugs ask
  settling      \* a token whose ledger rows went first; only a planted bug asks

vars == <<db, object, clone, ahead, touched, seen, settling>>

Tokens   == 1..MaxTokens
Objects  == Addresses \cup Outside
Symmetry == Permutations(Addresses) \cup Permutations(Paths)

Bugs == {"none", "condemned_unchecked", "deleted_before_condemned", "rows_of_a_run_taken",
         "rows_of_a_run_settled", "copied_outside_transaction", "landed_unchecked",
         "settled_before_judged", "newest_token_first", "shadowed_across_commits",
         "outside_entered", "epoch_unchecked", "home_unchecked"}

ASSUME Bug \in Bugs

-----------------------------------------------------------------------------
(* The tables of a database. A staged row is an address, "deleted" (a      *)
(* tombstone), or there is none. A ledger row is live; condemned online;   *)
(* or owned by a run: marked, which the run may take back, then taken.     *)

Empty ==
  [ledger  |-> [o \in Objects |-> "none"],
   token   |-> [t \in Tokens |-> IF t = 1 THEN "open" ELSE "unborn"],
   taker   |-> [t \in Tokens |-> 0],                      \* the commit that took it
   row     |-> [t \in Tokens |-> [p \in Paths |-> "none"]],
   head    |-> [p \in Paths |-> "none"],                  \* the tree of the last commit
   held    |-> {},                                        \* addresses in any commit
   commits |-> 0,
   pending |-> {}]                                        \* addresses with an upload token

In(s, states)    == {t \in Tokens : s.token[t] \in states}
Newest(ts)       == CHOOSE t \in ts : \A u \in ts : u <= t
Oldest(ts)       == CHOOSE t \in ts : \A u \in ts : t <= u
OpenToken(s)     == CHOOSE t \in Tokens : s.token[t] = "open"
Unborn(s)        == In(s, {"unborn"})
StagedIn(s, ts)  == {s.row[t][p] : t \in ts, p \in Paths} \cap Objects
Staged(s)        == StagedIn(s, In(s, {"open", "sealed"}))

(* What is seen at a path below the open token, and with it: the newest    *)
(* token that has a row there decides, then the tree of the head.          *)
Entry(s, ts, p) ==
  LET has == {t \in ts : s.row[t][p] # "none"}
      found == IF has = {} THEN s.head[p] ELSE s.row[Newest(has)][p]
  IN IF found = "deleted" THEN "none" ELSE found

Below(s, p)   == Entry(s, In(s, {"sealed"}), p)
Visible(s, p) == Entry(s, In(s, {"open", "sealed"}), p)

-----------------------------------------------------------------------------
(* The ledger.                                                             *)

Enter(s, o) == [s EXCEPT !.ledger[o] = "live"]

(* The row is locked before it is looked at. No row: committed, or outside.*)
MayShare(s, o) == s.ledger[o] \in {"none", "live"}

(* Condemn those that no row of a token that counts refers to any more.    *)
Release(s, os) ==
  LET lost == (os \cap Objects) \ StagedIn(s, In(s, {"open", "sealed", "committed"}))
  IN [s EXCEPT !.ledger =
       [o \in Objects |-> IF o \in lost /\ @[o] = "live" THEN "condemned" ELSE @[o]]]

(* A commit holds these now. What a run has marked is the run's.           *)
Settle(s, os) ==
  LET free == IF Bug = "rows_of_a_run_settled" THEN {"live", "marked", "taken"} ELSE {"live"}
  IN [s EXCEPT !.ledger =
       [o \in Objects |-> IF o \in os /\ @[o] \in free THEN "none" ELSE @[o]]]

-----------------------------------------------------------------------------
(* Changes to the rows of a token. Each releases what it replaced.         *)

Write(s, t, p, value) == Release([s EXCEPT !.row[t][p] = value], {s.row[t][p]} \ {value})

Stage(s, p, o) == Write(s, OpenToken(s), p, o)

Remove(s, p) == Write(s, OpenToken(s), p, IF Below(s, p) = "none" THEN "none" ELSE "deleted")

(* All open and sealed tokens at once. Their rows are the cleaner's.       *)
DropAll(s) ==
  LET fresh == Oldest(Unborn(s))
  IN [s EXCEPT !.token = [t \in Tokens |-> CASE @[t] \in {"open", "sealed"} -> "dropped"
                                             [] t = fresh -> "open"
                                             [] OTHER -> @[t]]]

-----------------------------------------------------------------------------
(* The writers of a database.                                              *)

Exists == {o \in Objects : object[o] \in {"there", "doomed"}}

Database(d)      == d = "original" \/ clone # "none"
Change(d, after) == db' = [db EXCEPT ![d] = after]
Rest             == UNCHANGED <<clone, ahead, touched, settling>>

(* Upload, copy of bytes: a fresh address, its ledger row and its staged   *)
(* row. An overwrite, if the path has a row.                               *)
Put(p, a) ==
  /\ object[a] = "unborn"
  /\ object' = [object EXCEPT ![a] = "there"]
  /\ Change("original", Stage(Enter(db["original"], a), p, a))
  /\ Rest /\ UNCHANGED seen

(* An address is given out with an upload token. The bytes come some time  *)
(* before the token is used or expires; here at once.                      *)
GiveAddress(a) ==
  /\ Linking
  /\ object[a] = "unborn"
  /\ object' = [object EXCEPT ![a] = "there"]
  /\ Change("original", [db["original"] EXCEPT !.pending = @ \cup {a}])
  /\ Rest /\ UNCHANGED seen

Link(p, a) ==
  LET s == db["original"]
  IN /\ a \in s.pending
     /\ Change("original", Stage(Enter([s EXCEPT !.pending = @ \ {a}], a), p, a))
     /\ Rest /\ UNCHANGED <<object, seen>>

(* By a collector or a reaper: one transaction, in which the address is    *)
(* condemned too.                                                          *)
ExpireUpload(d, a) ==
  /\ Database(d)
  /\ a \in db[d].pending
  /\ Change(d, [db[d] EXCEPT !.pending = @ \ {a}, !.ledger[a] = "condemned"])
  /\ Rest /\ UNCHANGED <<object, seen>>

(* Stage what lies outside: a row in staging and none in the ledger.       *)
StageOutside(p, x) ==
  LET s == db["original"]
  IN /\ Visible(s, p) # x
     /\ Change("original", Stage(IF Bug = "outside_entered" THEN Enter(s, x) ELSE s, p, x))
     /\ Rest /\ UNCHANGED <<object, seen>>

Delete(d, p) ==
  LET s == db[d]
      o == s.row[OpenToken(s)][p]
      early == Bug = "deleted_before_condemned" /\ o \in Exists /\ s.ledger[o] = "live"
  IN /\ Database(d)
     /\ Visible(s, p) # "none"
     /\ IF early
        THEN object' = [object EXCEPT ![o] = "reaped"] /\ UNCHANGED db
        ELSE Change(d, Remove(s, p)) /\ UNCHANGED object
     /\ Rest /\ UNCHANGED seen

(* Copy by reference. The source is read in the transaction that shares    *)
(* its address.                                                            *)
Copy(p, q) ==
  LET s == db["original"]
      early == Bug = "copied_outside_transaction"
      o == IF ~early THEN Visible(s, p) ELSE IF seen = <<>> THEN "none" ELSE seen[1]
  IN /\ p # q
     /\ o # "none"
     /\ Visible(s, q) # o
     /\ MayShare(s, o)
     /\ Change("original", Stage(s, q, o))
     /\ seen' = <<>>
     /\ Rest /\ UNCHANGED object

Look(p) ==
  /\ Bug = "copied_outside_transaction"
  /\ seen = <<>>
  /\ seen' = <<Visible(db["original"], p)>>
  /\ Rest /\ UNCHANGED <<db, object>>

Move(p, q) ==
  LET s == db["original"]
      o == Visible(s, p)
  IN /\ p # q
     /\ o # "none"
     /\ MayShare(s, o)
     /\ Change("original", Remove(Stage(s, q, o), p))
     /\ Rest /\ UNCHANGED <<object, seen>>

(* A path loses its rows in the open and the sealed tokens. A commit in    *)
(* flight sees that by the versions of its tokens and does not land.       *)
ResetPath(d, p) ==
  LET s == db[d]
      ts == In(s, {"open", "sealed"})
      bare == [s EXCEPT !.row = [t \in Tokens |->
                IF t \in ts THEN [@[t] EXCEPT ![p] = "none"] ELSE @[t]]]
  IN /\ Database(d)
     /\ \E t \in ts : s.row[t][p] # "none"
     /\ Change(d, Release(bare, {s.row[t][p] : t \in ts}))
     /\ Rest /\ UNCHANGED <<object, seen>>

(* Reset or delete a branch, or delete a repository.                       *)
ResetBranch(d) ==
  LET s == db[d]
  IN /\ Database(d)
     /\ Unborn(s) # {}
     /\ \E t \in In(s, {"open", "sealed"}) : \E p \in Paths : s.row[t][p] # "none"
     /\ Change(d, DropAll(s))
     /\ Rest /\ UNCHANGED <<object, seen>>

(* The first half of a commit. It counts an epoch and leaves it in the     *)
(* storage. A commit that ends here leaves a sealed token to the next one. *)
Seal ==
  LET s == db["original"]
      fresh == Oldest(Unborn(s))
  IN /\ Unborn(s) # {}
     /\ \E p \in Paths : s.row[OpenToken(s)][p] # "none"
     /\ Change("original",
          [s EXCEPT !.token = [@ EXCEPT ![OpenToken(s)] = "sealed", ![fresh] = "open"]])
     /\ ahead' = (clone # "none")
     /\ UNCHANGED <<object, clone, touched, seen, settling>>

(* The second half. It lands only if head, tokens and their versions are   *)
(* those that it has read, so it may stand here as if it read them now.    *)
Tree(s) == [p \in Paths |-> Below(s, p)]

Land ==
  LET s == db["original"]
      n == s.commits + 1
      early == Bug = "landed_unchecked"
      tree == IF early THEN seen[1] ELSE Tree(s)
  IN /\ IF early THEN seen # <<>> ELSE In(s, {"sealed"}) # {}
     /\ n <= MaxCommits
     /\ Change("original",
          [s EXCEPT !.commits = n,
                    !.head = tree,
                    !.held = @ \cup ({tree[p] : p \in Paths} \cap Objects),
                    !.taker = [t \in Tokens |-> IF s.token[t] = "sealed" THEN n ELSE @[t]],
                    !.token = [t \in Tokens |->
                      IF @[t] = "sealed" THEN "committed" ELSE @[t]]])
     /\ seen' = <<>>
     /\ Rest /\ UNCHANGED object

Read ==
  /\ Bug = "landed_unchecked"
  /\ seen = <<>>
  /\ In(db["original"], {"sealed"}) # {}
  /\ seen' = <<Tree(db["original"])>>
  /\ Rest /\ UNCHANGED <<db, object>>

Writer ==
  \/ \E p \in Paths, a \in Addresses : Put(p, a) \/ Link(p, a)
  \/ \E a \in Addresses : GiveAddress(a)
  \/ \E p \in Paths, x \in Outside : StageOutside(p, x)
  \/ \E p, q \in Paths : Copy(p, q) \/ Move(p, q)
  \/ \E p \in Paths : Look(p)
  \/ Seal \/ Read \/ Land

(* What can be done to a clone as well. Whatever writes into the storage   *)
(* is refused there, because it compares epochs before it starts.          *)
Dropping(d) ==
  \/ \E p \in Paths : Delete(d, p) \/ ResetPath(d, p)
  \/ ResetBranch(d)
  \/ \E a \in Addresses : ExpireUpload(d, a)

-----------------------------------------------------------------------------
(* The cleaner: one row in one transaction, of the oldest token. Batches   *)
(* of many rows are many of these at once.                                 *)

Shadowed(s, t, p) ==
  \E u \in Tokens :
    /\ u > t
    /\ s.row[u][p] # "none"
    /\ \/ s.taker[u] = s.taker[t]
       \/ Bug = "shadowed_across_commits" /\ s.token[u] = "committed"

CleanerAt(s) ==
  LET ts == In(s, {"committed", "dropped"})
  IN IF Bug = "newest_token_first" THEN Newest(ts) ELSE Oldest(ts)

CleanRow(d, p) ==
  LET s == db[d]
      t == CleanerAt(s)
      o == s.row[t][p]
      bare == [s EXCEPT !.row[t][p] = "none"]
      landed == s.token[t] = "committed" /\ ~Shadowed(s, t, p)
  IN /\ Database(d)
     /\ In(s, {"committed", "dropped"}) # {}
     /\ o # "none"
     /\ Bug = "settled_before_judged" => settling = t
     /\ Change(d, IF landed THEN Settle(bare, {o}) ELSE Release(bare, {o}))
     /\ Rest /\ UNCHANGED <<object, seen>>

(* The bug: the ledger rows of a committed token go first, then its rows   *)
(* are looked at one by one.                                               *)
SettleFirst(d) ==
  LET s == db[d]
      t == CleanerAt(s)
  IN /\ Bug = "settled_before_judged"
     /\ In(s, {"committed", "dropped"}) # {}
     /\ settling # t
     /\ settling' = t
     /\ Change(d, IF s.token[t] = "committed" THEN Settle(s, StagedIn(s, {t})) ELSE s)
     /\ UNCHANGED <<object, clone, ahead, touched, seen>>

CleanToken(d) ==
  LET s == db[d]
      t == CleanerAt(s)
  IN /\ Database(d)
     /\ In(s, {"committed", "dropped"}) # {}
     /\ \A p \in Paths : s.row[t][p] = "none"
     /\ Change(d, [s EXCEPT !.token[t] = "cleaned"])
     /\ Rest /\ UNCHANGED <<object, seen>>

Cleaner(d) == (\E p \in Paths : CleanRow(d, p)) \/ SettleFirst(d) \/ CleanToken(d)

-----------------------------------------------------------------------------
(* The reaper: the object first, then its row. The margin is any time.     *)
(* Condemned is terminal, so what it read a while ago is still right, and  *)
(* any number of reapers can work at once.                                 *)

(* Asked before each batch; here a batch has one object. The storage names *)
(* the database that is its home, and keeps the epochs that were counted.  *)
MayReap(d) ==
  \/ d = "original"
  \/ /\ Database(d)
     /\ clone = "unknown" \/ Bug = "home_unchecked"
     /\ ~ahead \/ Bug = "epoch_unchecked"

Reapable(s, o) ==
  \/ s.ledger[o] = "condemned"
  \/ Bug = "condemned_unchecked" /\ s.ledger[o] = "live"
  \/ Bug = "rows_of_a_run_taken" /\ s.ledger[o] = "marked"

ReapObject(d, o) ==
  /\ MayReap(d)
  /\ Reapable(db[d], o)
  /\ o \in Exists
  /\ object' = [object EXCEPT ![o] = "reaped"]
  /\ touched' = (touched \/ o \in db["original"].held)
  /\ UNCHANGED <<db, clone, ahead, seen, settling>>

ReapRow(d, o) ==
  /\ MayReap(d)
  /\ Reapable(db[d], o)
  /\ o \notin Exists
  /\ Change(d, [db[d] EXCEPT !.ledger[o] = "none"])
  /\ Rest /\ UNCHANGED <<object, seen>>

Reaper(d) == \E o \in Objects : ReapObject(d, o) \/ ReapRow(d, o)

-----------------------------------------------------------------------------
(* The offline run. Of what is in no commit it takes what nothing refers   *)
(* to, without a look at the ledger: nothing can refer to it again. What   *)
(* a lifecycle rule takes from commits it marks in the ledger; then it     *)
(* decides. The row stays, so that readers are told and copies refused.    *)

Doom(a) == object' = [object EXCEPT ![a] = "doomed"]

TakeGarbage(a) ==
  LET s == db["original"]
  IN /\ object[a] = "there"
     /\ a \notin s.held \cup Staged(s) \cup s.pending
     /\ Doom(a)
     /\ Rest /\ UNCHANGED <<db, seen>>

Mark(a) ==
  LET s == db["original"]
  IN /\ object[a] = "there"
     /\ a \in s.held \ Staged(s)
     /\ MayShare(s, a)
     /\ Change("original", [s EXCEPT !.ledger[a] = "marked"])
     /\ Rest /\ UNCHANGED <<object, seen>>

(* A commit holds it, so it needs no row any more, whether or not rows of  *)
(* a committed token are still to be cleaned.                              *)
GiveBack(a) ==
  LET s == db["original"]
  IN /\ s.ledger[a] = "marked"
     /\ Change("original", [s EXCEPT !.ledger[a] = "none"])
     /\ Rest /\ UNCHANGED <<object, seen>>

Promote(a) ==
  LET s == db["original"]
  IN /\ s.ledger[a] = "marked"
     /\ Change("original", [s EXCEPT !.ledger[a] = "taken"])
     /\ Doom(a)
     /\ Rest /\ UNCHANGED seen

Sweep(a) ==
  /\ object[a] = "doomed"
  /\ object' = [object EXCEPT ![a] = "swept"]
  /\ Rest /\ UNCHANGED <<db, seen>>

Run ==
  /\ Running
  /\ \E a \in Addresses : TakeGarbage(a) \/ Mark(a) \/ GiveBack(a) \/ Promote(a) \/ Sweep(a)

-----------------------------------------------------------------------------
(* Somebody copies the database. If the storage cannot tell the copy from  *)
(* its home, epochs are all there is: then no commit is in flight, because *)
(* such a commit has been counted in the copy too.                         *)
Clone ==
  /\ Cloning
  /\ clone = "none"
  /\ clone' \in {"known", "unknown"}
  /\ clone' = "unknown" => In(db["original"], {"sealed"}) = {}
  /\ Change("clone", db["original"])
  /\ UNCHANGED <<object, ahead, touched, seen, settling>>

Init ==
  /\ db = [d \in {"original", "clone"} |-> Empty]
  /\ object = [o \in Objects |-> IF o \in Outside THEN "there" ELSE "unborn"]
  /\ clone = "none" /\ ahead = FALSE /\ touched = FALSE
  /\ seen = <<>> /\ settling = 0

Next ==
  \/ Writer \/ Run \/ Clone
  \/ \E d \in {"original", "clone"} : Dropping(d) \/ Cleaner(d) \/ Reaper(d)

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(* What must hold.                                                         *)

Original == db["original"]
Row(states) == {o \in Objects : Original.ledger[o] \in states}

(* What commits and staged entries refer to is there. A commit knows what  *)
(* a lifecycle rule took from it. Against a clone that nobody can tell     *)
(* from the original, only CommittedIsUntouched holds.                     *)
NothingDangles ==
  clone # "unknown" => (Original.held \ Row({"taken"})) \cup Staged(Original) \subseteq Exists

(* Nobody refers to what was condemned; and nobody who could still show it *)
(* refers to what a run has marked or taken.                               *)
NothingRefersToCondemned ==
  /\ Row({"condemned"}) \cap
       (Original.held \cup StagedIn(Original, In(Original, {"open", "sealed", "committed"}))) = {}
  /\ Row({"marked", "taken"}) \cap Staged(Original) = {}

(* No reaper, of whichever database, deletes what a commit holds then.     *)
CommittedIsUntouched == ~touched

OutsideIsUntouched == Outside \subseteq Exists

(* What is there and in no commit has a row that will lead to its end.     *)
NothingIsForgotten ==
  \A a \in Addresses :
    object[a] = "there" =>
      a \in Original.held \cup Original.pending \cup Row({"live", "condemned"})

(* A live row is there for the sake of a staged row, so that it ends.      *)
NoRowIsLeft == Row({"live"}) \subseteq StagedIn(Original, Tokens)

(* Each of these is false, and TLC must say so: the reaper deletes; rows   *)
(* leave the ledger for history; two rows share an address; a clone wants  *)
(* what a commit of the original holds, and only epochs stand between; and *)
(* with epochs alone it takes what the original has only staged.           *)
NeverReaped  == \A a \in Addresses : object[a] # "reaped"
NeverSettled == \A a \in Original.held : Original.ledger[a] # "none"
NeverShared  == \A p, q \in Paths : p # q => Visible(Original, p) # Visible(Original, q)
                                            \/ Visible(Original, p) = "none"
NeverWanted  == ~(clone = "unknown" /\ \E a \in Original.held \cap Exists :
                                          db["clone"].ledger[a] = "condemned")
NeverEnough  == Staged(Original) \subseteq Exists
=============================================================================
