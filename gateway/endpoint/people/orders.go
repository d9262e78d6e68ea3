package people

import (
	"slices"
	"strings"
	"time"

	"authgate/gateway/endpoint/bodies"
	"authgate/gateway/identity/auth"
	"authgate/gateway/people/accounts"
	"authgate/gateway/proxy/web"
	"authgate/gateway/strictyaml"
)

// order has the fields of a change, and its account.
type order struct {
	username string // as auth.EnteredName returns it
	roles    []string
	until    time.Time // when the account, or the roles that it gets, end; zero: never
	now      time.Time
}

// readOrder reads a JSON object, or a form.
func readOrder(ex *web.Exchange, c *change, now time.Time) (*order, error) {
	read := orderOfObject
	if ex.MediaType() == web.TypeForm {
		read = orderOfForm
	}
	wanted, until, err := read(ex, c)
	if err != nil {
		return nil, err
	}
	wanted.now = now
	if wanted.until, err = until.readTime(now); err != nil {
		return nil, err
	}
	wanted.username = auth.EnteredName(wanted.username)
	if err := accounts.CheckNewUsername(wanted.username, false); c.add && err != nil {
		return nil, web.BadRequest("An account cannot have this name: "+err.Error()+".", errName)
	}
	return wanted, nil
}

func orderOfObject(ex *web.Exchange, c *change) (*order, end, error) {
	o, err := bodies.ReadObject(ex, bodies.OrForm)
	if err != nil {
		return nil, end{}, err
	}
	wanted, until := &order{}, end{}
	if wanted.username, err = o.Text("username"); err != nil || !c.roles {
		return wanted, until, err
	}
	for name, at := range map[string]**string{"until": &until.at, "for": &until.after} {
		if _, given := o[name]; given {
			text, err := o.Text(name)
			if err != nil {
				return nil, until, err
			}
			*at = &text
		}
	}
	if _, given := o["roles"]; !given && c.add {
		return wanted, until, nil
	}
	roles, err := o.Texts("roles")
	wanted.roles = eachOnce(roles)
	return wanted, until, err
}

// end is how an order tells when something ends: at a time, or after a while. Nil: it does not.
type end struct{ at, after *string }

// readTime returns the time of the end, zero if there is none.
func (e end) readTime(now time.Time) (time.Time, error) {
	switch {
	case e.at != nil && e.after != nil:
		return time.Time{}, web.BadRequest(`Give "until" or "for", not both.`, errTime)
	case e.at != nil:
		at, err := accounts.ParseTime(*e.at)
		if err != nil {
			return at, web.BadRequest(`"until" must be a time with an offset, like 2026-12-04T18:00:00Z.`, errTime)
		}
		return at, nil
	case e.after != nil:
		after, err := strictyaml.ParseDuration(*e.after)
		if err != nil || after <= 0 {
			return time.Time{}, web.BadRequest(`"for" must be a duration like 8h or 3d.`, errTime)
		}
		return now.Add(after).Truncate(time.Second), nil
	}
	return time.Time{}, nil
}

// orderOfForm reads a form. The roles are between commas, in one field or several.
func orderOfForm(ex *web.Exchange, c *change) (*order, end, error) {
	values, err := bodies.ReadForm(ex, `The form must have one field "username".`, "username")
	if err != nil {
		return nil, end{}, err
	}
	wanted, until := &order{username: values.Get("username")}, end{}
	if !c.roles {
		return wanted, until, nil
	}
	for name, at := range map[string]**string{"until": &until.at, "for": &until.after} {
		given := values[name]
		if len(given) > 1 {
			return nil, until, web.BadRequest(`Give "until" and "for" at most once.`, errTime)
		}
		if len(given) == 1 && strings.TrimSpace(given[0]) != "" { // a field that is left empty
			text := strings.TrimSpace(given[0])
			*at = &text
		}
	}
	if _, given := values["roles"]; !given && !c.add {
		return nil, until, web.BadRequest(`The form must have the field "roles": roles with commas between them.`, nil)
	}
	wanted.roles = eachOnce(strings.Split(strings.Join(values["roles"], ","), ","))
	return wanted, until, nil
}

// eachOnce returns roles without outer space, each once, and without empty ones.
func eachOnce(roles []string) []string {
	once := []string{}
	for _, role := range roles {
		if role = strings.TrimSpace(role); role != "" && !slices.Contains(once, role) {
			once = append(once, role)
		}
	}
	return once
}
