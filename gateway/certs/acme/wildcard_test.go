package acme

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// The certificate of a wildcard is for all names directly below it, and not for its parent or
// deeper ones. No such name is ordered on demand. A name with a certificate of its own keeps it.
func TestWildcard(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		parent := newName()
		own, wildcard := "own."+parent, "*."+parent
		r.names = append(r.names, wildcard, own)
		r.onDemand = OnDemand{Permits: func(string) bool { return true }, Names: 1, Burst: 1, Every: time.Hour}
		a, b, c := r.keep(t, 0, 90*day), issue(wildcard, time.Hour, 90*day), issue(own, 0, 90*day)
		keep(t, r.storage, wildcard, b)
		keep(t, r.storage, own, c)
		r.open(t)
		defer r.run(t)()
		synctest.Wait()
		r.wantServed(t, a, r.name, "")
		r.wantServed(t, b, "one."+parent, "TWO."+parent)
		r.wantServed(t, c, own)
		r.wantAsked(t, false)
		if got := r.reported(); !slices.Equal(got, []string{r.name, wildcard, own}) {
			t.Errorf("the names are %q", got)
		}
	})
}

// While a name has no certificate of its own, that of a wildcard is served, and its own is
// ordered nevertheless. While the wildcard has none, names below it get the first certificate,
// and are not ordered.
func TestWildcardMissing(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		there, missing := newName(), newName()
		own := "own." + there
		r.names = append(r.names, "*."+there, own)
		r.onDemand = OnDemand{Permits: func(string) bool { return true }, Names: 1, Burst: 1, Every: time.Hour}
		a, b := r.keep(t, 0, 90*day), issue("*."+there, 0, 90*day)
		keep(t, r.storage, "*."+there, b)
		r.open(t)
		r.wantServed(t, b, own)
		stop := r.run(t)
		time.Sleep(time.Second)
		r.wantAsked(t, true)
		if got := r.Certificates()[2]; got.Domain != own || !got.Expires.IsZero() {
			t.Errorf("the certificate of the wildcard counts as that of %+v", got)
		}
		stop()
		r.log.Reset()
		r.Manage([]string{r.name, "*." + missing})
		r.wantServed(t, a, "one."+missing)
		r.wantAsked(t, false)
	})
}
