package chaos

import (
	"testing"
	"time"
)

// testBounds are those of the histories here.
var testBounds = bounds{Staleness: 20, Recovery: 5}

// begun returns a history that begins with login 1 of alice at instance A, from 10 to
// 11. Times are small numbers, as only their order counts.
func begun(events ...event) []event {
	return append([]event{{Kind: kindLogin, At: "A", Begin: 10, End: 11, User: "alice", Login: 1, Status: 200}}, events...)
}

// request returns a request of alice's login.
func request(k kind, at string, begin, end time.Duration, credential string, status int) event {
	e := event{Kind: k, At: at, Begin: begin, End: end, User: "alice", Login: 1, Credential: credential, Status: status,
		Request: "r"}
	if status == 200 && (k == kindUse || k == kindMe) {
		e.Answered = &identity{User: "alice", Mechanism: mechanism(credential), Request: "r"}
	}
	if status == 200 && k == kindUse {
		e.Seen = []identity{*e.Answered}
	}
	return e
}

func use(at string, begin, end time.Duration, status int) event {
	return request(kindUse, at, begin, end, session, status)
}

func signOut(at string, begin, end time.Duration, status int) event {
	return request(kindLogout, at, begin, end, session, status)
}

func refresh(at string, begin, end time.Duration, credential string, status int) event {
	return request(kindRefresh, at, begin, end, credential, status)
}

func fault(k kind, at string, begin, end time.Duration) event {
	return event{Kind: k, At: at, Begin: begin, End: end}
}

func outage(begin, end time.Duration) event { return fault(kindOutage, "", begin, end) }

func down(at string, begin, end time.Duration) event { return fault(kindDown, at, begin, end) }

func account(k kind, begin, end time.Duration) event {
	return event{Kind: k, Begin: begin, End: end, User: "alice"}
}

func disable(begin, end time.Duration) event { return account(kindDisable, begin, end) }

func enable(begin, end time.Duration) event { return account(kindEnable, begin, end) }

// changed returns an event with a change.
func changed(e event, change func(*event)) event {
	change(&e)
	return e
}

// TestCheckAccepts: violations finds nothing in what the documents allow.
func TestCheckAccepts(t *testing.T) {
	for name, events := range map[string][]event{
		"a login that lives": {
			use("A", 20, 21, 200), use("B", 22, 23, 200), request(kindMe, "B", 24, 25, "access 0", 200),
		},
		"a refusal during a logout": {
			signOut("A", 20, 30, 200), use("A", 19, 21, 401), use("B", 29, 31, 200),
		},
		"another instance learns of a logout": {
			signOut("A", 20, 30, 200), use("B", 49, 60, 200), use("B", 50, 60, 401),
		},
		"a logout that failed and happened":       {signOut("A", 20, 30, 503), outage(15, 30), use("A", 31, 32, 401)},
		"a logout that failed and did not happen": {signOut("A", 20, 30, 503), outage(15, 30), use("A", 31, 32, 200)},
		"an answer that a logout cuts off":        {signOut("B", 20, 30, 200), use("A", 19, 25, 0)},
		"an answer that tells of a logout": {
			signOut("B", 20, 30, 200), changed(use("A", 19, 25, 401), seen("alice", "session")),
		},
		"a logout that is repeated": {signOut("A", 20, 30, 200), signOut("A", 31, 32, 200)},
		"a logout by link":          {signOut("A", 20, 30, 302), use("A", 31, 32, 401)},
		"a logout by a token that is dead": {
			signOut("A", 20, 30, 200), request(kindLogout, "A", 31, 32, "access 0", 401),
		},
		"an outage":                      {outage(20, 30), use("A", 29, 31, 503), use("B", 15, 20, 503)},
		"an outage of one instance":      {fault(kindOutage, "A", 20, 30), use("A", 25, 26, 503)},
		"an outage that follows a stall": {fault(kindStall, "A", 20, 30), use("A", 34, 36, 503)},
		"a killed instance":              {down("A", 20, 30), use("A", 25, 26, 0)},
		"a repetition at a killed instance": {
			down("A", 20, 30), signOut("A", 15, 15, 200), changed(use("A", 18, 32, 401), seen("alice", "session")),
		},
		"parallel refreshes": {
			refresh("A", 20, 30, "refresh 1", 200), refresh("B", 20, 30, "refresh 1", 401),
		},
		"refreshes during an outage": {
			refresh("A", 20, 30, "refresh 1", 503), refresh("B", 20, 30, "refresh 1", 401), fault(kindOutage, "A", 20, 30),
		},
		"refreshes during a logout": {refresh("A", 20, 30, "refresh 1", 401), signOut("B", 29, 31, 200)},
		"a disabled account":        {disable(20, 30), use("A", 29, 32, 200), use("A", 30, 31, 401)},
		"a disabled account's password": {
			disable(20, 30), {Kind: kindLogin, User: "alice", Begin: 35, End: 36, Status: 401},
		},
		"a login after an account is enabled":       {disable(5, 6), enable(7, 8), use("A", 20, 21, 200)},
		"a login while an account is enabled, bad":  {disable(5, 6), enable(7, 12), use("A", 20, 21, 401)},
		"a login while an account is enabled, good": {disable(5, 6), enable(7, 12), use("A", 20, 21, 200)},
		"an instance that enables an account late": {
			disable(5, 6), enable(7, 30), use("B", 20, 21, 401), use("B", 23, 24, 200),
		},
		"a login that was not acknowledged": {
			{Kind: kindLogin, At: "A", Begin: 20, End: 30, Login: 2, User: "bob"}, down("A", 20, 30),
		},
	} {
		for _, v := range violations(begun(events...), testBounds) {
			t.Errorf("%s: %v", name, v)
		}
	}
}

func seen(user, mechanism string) func(*event) {
	return func(e *event) { e.Seen = []identity{{User: user, Mechanism: mechanism, Request: "r"}} }
}

// TestCheckFinds: violations finds each broken promise in the last event.
func TestCheckFinds(t *testing.T) {
	logout := signOut("A", 20, 30, 200)
	for _, c := range []struct {
		name, rule string
		events     []event
	}{
		{"a login is lost", ruleLives, []event{use("B", 20, 21, 401)}},
		{"a login is lost before its logout", ruleLives, []event{logout, use("B", 18, 19, 401)}},
		{"a logout finds its login lost", ruleLives, []event{request(kindLogout, "B", 19, 19, "access 0", 401)}},
		{"a login is lost by an account that was enabled before", ruleLives, []event{
			disable(1, 2), enable(3, 4), use("A", 20, 21, 401),
		}},
		{"a password is refused before the account is disabled", ruleLives, []event{
			disable(30, 31), enable(32, 33),
			{Kind: kindLogin, At: "A", Begin: 20, End: 21, User: "alice", Login: 2, Status: 401}}},
		{"a password is refused after the account is enabled", ruleLives, []event{
			disable(30, 31), enable(32, 33),
			{Kind: kindLogin, At: "A", Begin: 40, End: 41, User: "alice", Login: 2, Status: 401}}},
		{"a session outlives its logout", ruleDead, []event{logout, use("A", 30, 31, 200)}},
		{"a token outlives a logout by link", ruleDead, []event{
			signOut("A", 20, 30, 302), request(kindUse, "A", 31, 32, "access 0", 200),
		}},
		{"a session outlives its logout elsewhere", ruleDead, []event{logout, use("B", 50, 51, 200)}},
		{"a refresh token outlives its logout", ruleDead, []event{logout, refresh("A", 40, 41, "refresh 1", 200)}},
		{"a token is good for a logout after one", ruleDead, []event{
			logout, request(kindLogout, "A", 40, 41, "access 0", 200),
		}},
		{"a session comes back", ruleDead, []event{
			outage(20, 30), signOut("A", 20, 30, 503), use("A", 31, 32, 401), use("A", 33, 34, 200)}},
		{"a session comes back elsewhere", ruleDead, []event{
			outage(20, 30), signOut("A", 20, 30, 503), use("A", 31, 32, 401), use("B", 52, 54, 200)}},
		{"a session of a disabled account", ruleDead, []event{disable(20, 30), use("B", 30, 31, 200)}},
		{"a session of an account that was disabled", ruleDead, []event{
			disable(20, 30), enable(40, 50), use("B", 60, 61, 200),
		}},
		{"a refresh token works twice", ruleRefresh, []event{
			refresh("A", 20, 30, "refresh 1", 200), refresh("B", 21, 30, "refresh 1", 200)}},
		{"a refresh token is refused everywhere", ruleRefresh, []event{
			refresh("B", 20, 30, "refresh 1", 401), refresh("A", 20, 30, "refresh 1", 401)}},
		{"the upstream gets another user", ruleIdentity, []event{changed(use("A", 20, 21, 200), seen("bob", "session"))}},
		{"the answer is for another user", ruleIdentity, []event{
			changed(use("A", 20, 21, 200), func(e *event) { e.Answered = &identity{"bob", "session", "r"} }),
		}},
		{"the answer says nothing", ruleIdentity, []event{
			changed(use("A", 20, 21, 200), func(e *event) { e.Answered = nil }),
		}},
		{"the answer is that to another request", ruleIdentity, []event{
			changed(use("A", 20, 21, 200), func(e *event) { e.Answered = &identity{"alice", "session", "other"} }),
		}},
		{"the answer did not come from the upstream", ruleIdentity, []event{
			changed(use("A", 20, 21, 200), func(e *event) { e.Seen = nil }),
		}},
		{"a refused request reaches the upstream", ruleIdentity, []event{
			logout, changed(use("A", 31, 32, 401), seen("alice", "session")),
		}},
		{"an internal error", ruleStatus, []event{use("A", 20, 21, 500)}},
		{"an outage without a cause", ruleOutage, []event{outage(20, 30), use("A", 31, 32, 503)}},
		{"an outage of the other instance", ruleOutage, []event{fault(kindOutage, "B", 20, 30), use("A", 25, 26, 503)}},
		{"an outage long after a stall", ruleOutage, []event{fault(kindStall, "A", 20, 30), use("A", 36, 37, 503)}},
		{"no answer", ruleAnswer, []event{use("A", 20, 21, 0)}},
		{"no answer in an outage", ruleAnswer, []event{outage(20, 30), use("A", 25, 26, 0)}},
	} {
		found, shows := violations(begun(c.events...), testBounds), c.events[len(c.events)-1]
		if len(found) != 1 || found[0].Rule != c.rule || found[0].Event.Begin != shows.Begin ||
			found[0].Event.At != shows.At {
			t.Errorf("%s: found %v, expected one violation of %q in %+v", c.name, found, c.rule, shows)
		}
	}
}
