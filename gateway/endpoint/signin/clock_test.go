package signin_test

import (
	"testing"
	"time"

	"authgate/internal/test/rig"
)

// When the clock is set back, what has ended stays dead.
func TestClockStepsBack(t *testing.T) {
	t.Parallel()
	const far = 30 * time.Minute
	for name, story := range map[string]func(r *rig.Rig){
		// Even after the record of the revoked token has expired.
		"a login that was ended": func(r *rig.Rig) {
			byCookie, byToken := r.Login(rig.Alice), r.Login(rig.Alice)
			r.Want(200, "POST", "/logout", "", byCookie.Cookie)
			r.Want(200, "POST", "/logout", "", byToken.Bearer)
			for _, step := range []time.Duration{far, far, far, -3*far - time.Minute} {
				r.Clock.Advance(step)
				r.Good(byCookie, false)
				r.Good(byToken, false)
			}
		},
		"a session that was seen to have expired": func(r *rig.Rig) {
			s := r.Login(rig.Alice)
			for _, step := range []time.Duration{2 * time.Hour, -2 * time.Hour} {
				r.Clock.Advance(step)
				r.Want(401, "GET", "/session/", "", s.Cookie)
			}
		},
		"a login that is alive": func(r *rig.Rig) {
			r.Clock.Advance(24 * time.Hour) // the accounts are old
			s := r.Login(rig.Alice)
			r.Clock.Advance(-far)
			r.Want(401, "GET", "/bearer/", "", s.Bearer) // a token from the future is not valid yet
			r.Want(200, "GET", "/session/", "", s.Cookie)
			next := rig.ReadLogin(r.T, r.Want(200, "POST", "/refresh", rig.RefreshBody(s.Refresh), rig.JSON))
			r.Want(200, "GET", "/bearer/", "", next.Bearer)
		},
		"a password that is remembered": func(r *rig.Rig) {
			header := rig.Basic("service", "s3rvice")
			r.Want(200, "GET", "/basic/", "", header)
			r.Reload(rig.Edit(r.T, rig.Base, "$2a$04$/a6CEbScrlmC22ADXpzW/ecjqkuROylrmELHONFTJGi24ct16Ltwu",
				rig.BobHash))
			r.Clock.Advance(-far)
			r.Want(401, "GET", "/basic/", "", header)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			story(rig.New(t, rig.Base))
		})
	}
}
