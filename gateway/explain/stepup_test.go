package explain_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"authgate/internal/test/rig"
	"authgate/policy"
)

// An explanation says what a sign-in must prove, and is right to the second.
func TestExplainStepUp(t *testing.T) {
	t.Parallel()
	yaml := rig.Edit(t, explainConfig, "  admin: {roles: [admin]}",
		"  admin: {roles: [admin]}\n  two: {factors: 2}\n  fresh: {max_age: 15m}")
	e := newExplainer(t, rig.Parse(t, t.TempDir(), yaml+
		"  - {match: /vault, name: vault, upstream: app, auth: [basic, session, bearer, oidc], policy: [two, fresh]}\n"))
	whole := policy.Demand{Factors: 2, MaxAge: 15 * time.Minute}
	for _, c := range []struct {
		caller Caller
		header http.Header
		want   string
		demand policy.Demand
	}{
		{Caller{User: "alice"}, nil, "challenge 401 policy two: factors", whole},
		{Caller{User: "alice", Factors: 2}, nil, "challenge 401 policy fresh: max_age", whole},
		{Caller{User: "alice", Age: time.Minute}, nil, "challenge 401 policy two: factors", whole},
		{Caller{User: "alice", Factors: 2, Age: 15 * time.Minute}, nil, "allow 200 two, fresh", policy.Demand{}},
		{Caller{User: "alice", Factors: 2, Age: 15*time.Minute + 1}, nil, "challenge 401 policy fresh: max_age", whole},
		{Caller{User: "alice", Mechanism: policy.Bearer, Factors: 2, Age: time.Second}, nil, "allow 200 two, fresh",
			policy.Demand{}},
		{Caller{Provider: "corp", Username: "dave", Factors: 2, Age: time.Second}, nil, "allow 200 two, fresh",
			policy.Demand{}},
		{Caller{User: "service"}, nil, "challenge 401 policy two: factors", whole},
		{Caller{User: "alice", APIToken: true}, nil, "challenge 401 policy two: factors", whole},
		{Caller{Provider: "machines", Username: "m1"}, nil, "challenge 401 policy two: factors", whole},
		{Caller{User: "alice"}, http.Header{"Accept": {"text/html"}}, "challenge 302 policy two: factors", whole},
		{Caller{User: "alice", APIToken: true}, http.Header{"Accept": {"text/html"}},
			"challenge 401 policy two: factors",
			whole},
	} {
		x, err := e.Explain(&Request{Method: "GET", URL: "/vault", Header: c.header, Caller: &c.caller})
		if err != nil {
			t.Errorf("%+v: %v", c.caller, err)
			continue
		}
		rule := strings.TrimPrefix(x.Reason, "route vault: ")
		rule, _, _ = strings.Cut(rule, ": needs")
		rule = strings.TrimSuffix(strings.ReplaceAll(rule, "policy two, policy fresh", "two, fresh"), ": met")
		if got := fmt.Sprint(x.Outcome, " ", x.Status, " ", rule); got != c.want || x.StepUp != c.demand {
			t.Errorf("%+v: got %q, %+v, want %q, %+v: %s", c.caller, got, x.StepUp, c.want, c.demand, x.Reason)
		}
	}
	for _, c := range []Caller{
		{User: "alice", Factors: 3}, {User: "alice", Factors: -1}, {User: "alice", Age: -1},
		{User: "service", Factors: 2}, {User: "service", Age: 1}, {User: "alice", APIToken: true, Factors: 1},
		{Provider: "machines", Username: "m1", Age: 1}, {Mechanism: policy.Basic, Username: "x", Factors: 2},
	} {
		x, err := e.Explain(&Request{Method: "GET", URL: "/vault", Caller: &c})
		if _, mistaken := errors.AsType[*Mistake](err); !mistaken {
			t.Errorf("%+v: %+v, %v", c, x, err)
		}
	}
}
