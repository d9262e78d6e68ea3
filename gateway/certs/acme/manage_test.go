package acme

import (
	"net/http/httptest"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// reported returns the names in the reports of a Manager.
func (r *rig) reported() (domains []string) {
	for _, c := range r.Certificates() {
		domains = append(domains, c.Domain)
	}
	return domains
}

// Names come and go while the Manager runs: a new one gets its certificate, a removed
// one is renewed no more, and the first one is for other clients.
func TestManage(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		stays, goes, comes := r.name, newName(), newName()
		r.names = append(r.names, goes)
		a, b, c := r.keep(t, 0, 90*day), issue(goes, 0, 90*day), issue(comes, 0, 90*day)
		keep(t, r.storage, goes, b)
		r.open(t)
		defer r.run(t)()
		synctest.Wait()
		r.wantServed(t, a, stays, "", comes)
		r.wantServed(t, b, goes)

		r.failed(goes, "a problem of a name that goes")
		keep(t, r.storage, comes, c)
		r.Manage([]string{comes, stays, stays})
		synctest.Wait()
		r.wantServed(t, c, comes, "", "unknown.example", goes)
		r.wantServed(t, a, stays)
		if got := r.reported(); !slices.Equal(got, []string{comes, stays}) || r.current(goes) != nil || len(r.failures) != 0 {
			t.Errorf("the names are %q, or %q is still held", got, goes)
		}
		if r.AnswerChallenge(nil, httptest.NewRequest("GET", "http://"+goes+"/.well-known/acme-challenge/token", nil)) {
			t.Error("a challenge for a removed name is answered")
		}

		r.Manage([]string{stays, goes}) // from the storage, where it stayed
		synctest.Wait()
		r.wantServed(t, b, goes)
		r.wantServed(t, a, stays, "", comes)
		r.wantAsked(t, false)
	})
}

// A new name without a certificate is ordered, and one that is removed meanwhile is
// ordered no more. Until there is one, clients get the certificate of the first name.
func TestManageOrders(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		a, comes := r.keep(t, 0, 90*day), newName()
		r.open(t)
		defer r.run(t)()
		synctest.Wait()
		r.wantAsked(t, false)
		r.Manage([]string{r.name, comes})
		time.Sleep(time.Second)
		r.wantAsked(t, true)
		r.wantServed(t, a, comes)
		r.Manage([]string{r.name})
		synctest.Wait()
		r.log.Reset()
		time.Sleep(2 * day)
		r.wantAsked(t, false)
	})
}
