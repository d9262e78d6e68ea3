package sqlitestore
import ("testing";"time";"fmt";"sync")
func never_() time.Time { return time.Time{} }
func fill(b testing.TB, s *Store, n int) {
	var wg sync.WaitGroup
	for w := range 256 { wg.Go(func(){ for i:=w;i<n;i+=256 { if err := s.Put(b.Context(), fmt.Sprintf("key %d", i), benchmarkValue, time.Now().Add(time.Hour)); err!=nil {b.Error(err)} } }) }
	wg.Wait()
}
func TestBig(t *testing.T) {
	s := openTest(t, Options{})
	p := s.db.path
	start := time.Now()
	fill(t, s, 300000)
	t.Log("fill", time.Since(start))
	start = time.Now()
	n, err := s.Count(t.Context(), "key 1"); t.Log("count", n, err, time.Since(start))
	start = time.Now()
	s.Close(); t.Log("close", time.Since(start))
	start = time.Now()
	s = openTest(t, Options{Path: p}); t.Log("open", time.Since(start))
}
