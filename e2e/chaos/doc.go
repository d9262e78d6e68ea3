// Package chaos tests running gateways under random faults.
//
// Clients sign in, use their sessions and tokens, refresh and sign out.
// Meanwhile gateways are killed, restarted and reloaded, accounts are
// disabled, and Redis is killed, frozen, cut off or delayed. Each request and
// each fault is an event with the time before it began and the time after it
// ended. Then violations finds events that contradict a promise of docs/.
//
// The result does not depend on the speed of the machine: it compares only events
// of which one ended before the other began, with the documented time between them
// if there is one.
//
//	go test -C e2e -count=1 ./chaos           a few seconds, part of make test
//	make chaos CHAOSTIME=10m                  rounds of up to a minute
//	make chaos CHAOSTIME=10s CHAOSSEED=42     the decisions of round 42 again
//
// The seed decides the actions of each client and each fault. The machine
// decides in which order they run, so a seed repeats a run closely, not
// exactly.
package chaos
