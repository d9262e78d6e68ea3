package gateway

import (
	"maps"
	"slices"
	"testing"
)

// The configuration refuses routes at the paths of own endpoints, so both must
// have the same list.
func TestOwnEndpointsMatchConfig(t *testing.T) {
	t.Parallel()
	for _, more := range []string{"", `
session: {csrf_token: true}
endpoints: {prefix: /auth/}
providers: [{name: small, issuer: "https://id.example", client_id: gateway}]
`} {
		r := newRig(t, baseConfig+more)
		st := r.state.Load()
		var want []string
		for _, name := range st.config.OwnEndpoints() {
			want = append(want, st.config.Endpoints.Prefix+name)
		}
		slices.Sort(want)
		if got := slices.Sorted(maps.Keys(st.endpoints)); !slices.Equal(got, want) {
			t.Errorf("the gateway serves %q, the configuration knows %q", got, want)
		}
	}
}
