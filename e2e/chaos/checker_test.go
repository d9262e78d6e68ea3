package chaos

import (
	"testing"
	"time"
)

// bounds of the histories here.
var bounds = Bounds{Staleness: 20, Recovery: 5}

// history returns a history that begins with login 1 of alice at instance A, from 10 to
// 11. Times are small numbers, as only their order counts.
func history(events ...Event) []Event {
	return append([]Event{{Kind: Login, At: "A", Begin: 10, End: 11, User: "alice", Login: 1, Status: 200}}, events...)
}

// request returns a request of alice's login.
func request(kind Kind, at string, begin, end time.Duration, credential string, status int) Event {
	e := Event{Kind: kind, At: at, Begin: begin, End: end, User: "alice", Login: 1, Credential: credential, Status: status, Request: "r"}
	if status == 200 && (kind == Use || kind == Me) {
		e.Answered = &Identity{User: "alice", Mechanism: mechanism(credential), Request: "r"}
	}
	if status == 200 && kind == Use {
		e.Seen = []Identity{*e.Answered}
	}
	return e
}

func use(at string, begin, end time.Duration, status int) Event {
	return request(Use, at, begin, end, Session, status)
}

func fault(kind Kind, at string, begin, end time.Duration) Event {
	return Event{Kind: kind, At: at, Begin: begin, End: end}
}

func account(kind Kind, begin, end time.Duration) Event {
	return Event{Kind: kind, Begin: begin, End: end, User: "alice"}
}

// changed returns an event with a change.
func changed(e Event, change func(*Event)) Event {
	change(&e)
	return e
}

// TestCheckAccepts: Check finds nothing in what the documents allow.
func TestCheckAccepts(t *testing.T) {
	for name, events := range map[string][]Event{
		"a login that lives":                        {use("A", 20, 21, 200), use("B", 22, 23, 200), request(Me, "B", 24, 25, "access 0", 200)},
		"a refusal during a logout":                 {request(Logout, "A", 20, 30, Session, 200), use("A", 19, 21, 401), use("B", 29, 31, 200)},
		"another instance learns of a logout":       {request(Logout, "A", 20, 30, Session, 200), use("B", 49, 60, 200), use("B", 50, 60, 401)},
		"a logout that failed and happened":         {request(Logout, "A", 20, 30, Session, 503), fault(Outage, "", 15, 30), use("A", 31, 32, 401)},
		"a logout that failed and did not happen":   {request(Logout, "A", 20, 30, Session, 503), fault(Outage, "", 15, 30), use("A", 31, 32, 200)},
		"an answer that a logout cuts off":          {request(Logout, "B", 20, 30, Session, 200), use("A", 19, 25, 0)},
		"an answer that tells of a logout":          {request(Logout, "B", 20, 30, Session, 200), changed(use("A", 19, 25, 401), seen("alice", "session"))},
		"a logout that is repeated":                 {request(Logout, "A", 20, 30, Session, 200), request(Logout, "A", 31, 32, Session, 200)},
		"a logout by link":                          {request(Logout, "A", 20, 30, Session, 302), use("A", 31, 32, 401)},
		"a logout by a token that is dead":          {request(Logout, "A", 20, 30, Session, 200), request(Logout, "A", 31, 32, "access 0", 401)},
		"an outage":                                 {fault(Outage, "", 20, 30), use("A", 29, 31, 503), use("B", 15, 20, 503)},
		"an outage of one instance":                 {fault(Outage, "A", 20, 30), use("A", 25, 26, 503)},
		"an outage that follows a stall":            {fault(Stall, "A", 20, 30), use("A", 34, 36, 503)},
		"a killed instance":                         {fault(Down, "A", 20, 30), use("A", 25, 26, 0)},
		"a repetition at a killed instance":         {fault(Down, "A", 20, 30), request(Logout, "A", 15, 15, Session, 200), changed(use("A", 18, 32, 401), seen("alice", "session"))},
		"parallel refreshes":                        {request(Refresh, "A", 20, 30, "refresh 1", 200), request(Refresh, "B", 20, 30, "refresh 1", 401)},
		"refreshes during an outage":                {request(Refresh, "A", 20, 30, "refresh 1", 503), request(Refresh, "B", 20, 30, "refresh 1", 401), fault(Outage, "A", 20, 30)},
		"refreshes during a logout":                 {request(Refresh, "A", 20, 30, "refresh 1", 401), request(Logout, "B", 29, 31, Session, 200)},
		"a disabled account":                        {account(Disable, 20, 30), use("A", 29, 32, 200), use("A", 30, 31, 401)},
		"a disabled account's password":             {account(Disable, 20, 30), {Kind: Login, User: "alice", Begin: 35, End: 36, Status: 401}},
		"a login after an account is enabled":       {account(Disable, 5, 6), account(Enable, 7, 8), use("A", 20, 21, 200)},
		"a login while an account is enabled, bad":  {account(Disable, 5, 6), account(Enable, 7, 12), use("A", 20, 21, 401)},
		"a login while an account is enabled, good": {account(Disable, 5, 6), account(Enable, 7, 12), use("A", 20, 21, 200)},
		"an instance that enables an account late":  {account(Disable, 5, 6), account(Enable, 7, 30), use("B", 20, 21, 401), use("B", 23, 24, 200)},
		"a login that was not acknowledged":         {{Kind: Login, At: "A", Begin: 20, End: 30, Login: 2, User: "bob"}, fault(Down, "A", 20, 30)},
	} {
		for _, v := range Check(history(events...), bounds) {
			t.Errorf("%s: %v", name, v)
		}
	}
}

func seen(user, mechanism string) func(*Event) {
	return func(e *Event) { e.Seen = []Identity{{User: user, Mechanism: mechanism, Request: "r"}} }
}

// TestCheckFinds: Check finds each broken promise in the last event.
func TestCheckFinds(t *testing.T) {
	logout := request(Logout, "A", 20, 30, Session, 200)
	for _, c := range []struct {
		name, rule string
		events     []Event
	}{
		{"a login is lost", RuleLives, []Event{use("B", 20, 21, 401)}},
		{"a login is lost before its logout", RuleLives, []Event{logout, use("B", 18, 19, 401)}},
		{"a logout finds its login lost", RuleLives, []Event{request(Logout, "B", 19, 19, "access 0", 401)}},
		{"a login is lost by an account that was enabled before", RuleLives, []Event{account(Disable, 1, 2), account(Enable, 3, 4), use("A", 20, 21, 401)}},
		{"a password is refused before the account is disabled", RuleLives, []Event{
			account(Disable, 30, 31), account(Enable, 32, 33), {Kind: Login, At: "A", Begin: 20, End: 21, User: "alice", Login: 2, Status: 401}}},
		{"a password is refused after the account is enabled", RuleLives, []Event{
			account(Disable, 30, 31), account(Enable, 32, 33), {Kind: Login, At: "A", Begin: 40, End: 41, User: "alice", Login: 2, Status: 401}}},
		{"a session outlives its logout", RuleDead, []Event{logout, use("A", 30, 31, 200)}},
		{"a token outlives a logout by link", RuleDead, []Event{request(Logout, "A", 20, 30, Session, 302), request(Use, "A", 31, 32, "access 0", 200)}},
		{"a session outlives its logout elsewhere", RuleDead, []Event{logout, use("B", 50, 51, 200)}},
		{"a refresh token outlives its logout", RuleDead, []Event{logout, request(Refresh, "A", 40, 41, "refresh 1", 200)}},
		{"a token is good for a logout after one", RuleDead, []Event{logout, request(Logout, "A", 40, 41, "access 0", 200)}},
		{"a session comes back", RuleDead, []Event{
			fault(Outage, "", 20, 30), request(Logout, "A", 20, 30, Session, 503), use("A", 31, 32, 401), use("A", 33, 34, 200)}},
		{"a session comes back elsewhere", RuleDead, []Event{
			fault(Outage, "", 20, 30), request(Logout, "A", 20, 30, Session, 503), use("A", 31, 32, 401), use("B", 52, 54, 200)}},
		{"a session of a disabled account", RuleDead, []Event{account(Disable, 20, 30), use("B", 30, 31, 200)}},
		{"a session of an account that was disabled", RuleDead, []Event{account(Disable, 20, 30), account(Enable, 40, 50), use("B", 60, 61, 200)}},
		{"a refresh token works twice", RuleRefresh, []Event{
			request(Refresh, "A", 20, 30, "refresh 1", 200), request(Refresh, "B", 21, 30, "refresh 1", 200)}},
		{"a refresh token is refused everywhere", RuleRefresh, []Event{
			request(Refresh, "B", 20, 30, "refresh 1", 401), request(Refresh, "A", 20, 30, "refresh 1", 401)}},
		{"the upstream gets another user", RuleIdentity, []Event{changed(use("A", 20, 21, 200), seen("bob", "session"))}},
		{"the answer is for another user", RuleIdentity, []Event{changed(use("A", 20, 21, 200), func(e *Event) { e.Answered = &Identity{"bob", "session", "r"} })}},
		{"the answer says nothing", RuleIdentity, []Event{changed(use("A", 20, 21, 200), func(e *Event) { e.Answered = nil })}},
		{"the answer is that to another request", RuleIdentity, []Event{changed(use("A", 20, 21, 200), func(e *Event) { e.Answered = &Identity{"alice", "session", "other"} })}},
		{"the answer did not come from the upstream", RuleIdentity, []Event{changed(use("A", 20, 21, 200), func(e *Event) { e.Seen = nil })}},
		{"a refused request reaches the upstream", RuleIdentity, []Event{logout, changed(use("A", 31, 32, 401), seen("alice", "session"))}},
		{"an internal error", RuleStatus, []Event{use("A", 20, 21, 500)}},
		{"an outage without a cause", RuleOutage, []Event{fault(Outage, "", 20, 30), use("A", 31, 32, 503)}},
		{"an outage of the other instance", RuleOutage, []Event{fault(Outage, "B", 20, 30), use("A", 25, 26, 503)}},
		{"an outage long after a stall", RuleOutage, []Event{fault(Stall, "A", 20, 30), use("A", 36, 37, 503)}},
		{"no answer", RuleAnswer, []Event{use("A", 20, 21, 0)}},
		{"no answer in an outage", RuleAnswer, []Event{fault(Outage, "", 20, 30), use("A", 25, 26, 0)}},
	} {
		found, shows := Check(history(c.events...), bounds), c.events[len(c.events)-1]
		if len(found) != 1 || found[0].Rule != c.rule || found[0].Event.Begin != shows.Begin || found[0].Event.At != shows.At {
			t.Errorf("%s: found %v, expected one violation of %q in %+v", c.name, found, c.rule, shows)
		}
	}
}
