package login

import (
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"authgate/gateway/auth"
	"authgate/gateway/store/sqlitestore"
)

// BenchmarkBegin records logins with session and tokens in the embedded store, 50 at the
// same time, for one account and for many. It does not check passwords.
func BenchmarkBegin(b *testing.B) {
	for _, accounts := range []int64{1, 1000} {
		b.Run(fmt.Sprintf("accounts=%d", accounts), func(b *testing.B) {
			s, err := sqlitestore.Open(b.Context(), sqlitestore.Options{Path: filepath.Join(b.TempDir(), "authgate.db")})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			m := newMechanisms(b, nil)
			logins := NewLogins(s, time.Now)
			var n atomic.Int64
			b.SetParallelism(25)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					account := &auth.Account{Username: fmt.Sprint(n.Add(1) % accounts)}
					_, session := m.session.New()
					_, refresh := m.refresh.New(testDevice())
					_, err := logins.Begin(b.Context(), account, time.Now().Add(time.Hour), session, refresh)
					if err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}
