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
	wanted, ends, err := read(ex, c)
	if err != nil {
		return nil, err
	}
	wanted.now = now
	if wanted.until, err = readEnd(ends, now); err != nil {
		return nil, err
	}
	wanted.username = auth.EnteredName(wanted.username)
	if err := accounts.CheckNewUsername(wanted.username, false); c.add && err != nil {
		return nil, web.BadRequest("An account cannot have this name: "+err.Error()+".", errName)
	}
	return wanted, nil
}

func orderOfObject(ex *web.Exchange, c *change) (wanted *order, ends map[string]string, err error) {
	o, err := bodies.ReadObject(ex, bodies.OrForm)
	if err != nil {
		return nil, nil, err
	}
	wanted, ends = &order{}, map[string]string{}
	if wanted.username, err = o.Text("username"); err != nil || !c.roles {
		return wanted, nil, err
	}
	for _, name := range endFields() {
		if _, given := o[name]; given {
			if ends[name], err = o.Text(name); err != nil {
				return nil, nil, err
			}
		}
	}
	if _, given := o["roles"]; !given && c.add {
		return wanted, ends, nil
	}
	roles, err := o.Texts("roles")
	wanted.roles = eachOnce(roles)
	return wanted, ends, err
}

// endFields are the fields for the end of something: a time, and a while. Without them it does not end.
func endFields() []string { return []string{"until", "for"} }

// readEnd returns the time of the end in fields, zero if there is none.
func readEnd(fields map[string]string, now time.Time) (at time.Time, err error) {
	until, hasTime := fields["until"]
	after, hasWhile := fields["for"]
	switch {
	case hasTime && hasWhile:
		return at, web.BadRequest(`Give "until" or "for", not both.`, errTime)
	case hasTime:
		if at, err = accounts.ParseTime(until); err != nil {
			return at, web.BadRequest(`"until" must be a time with an offset, like 2026-12-04T18:00:00Z.`, errTime)
		}
	case hasWhile:
		while, err := strictyaml.ParseDuration(after)
		if err != nil || while <= 0 {
			return at, web.BadRequest(`"for" must be a duration like 8h or 3d.`, errTime)
		}
		at = now.Add(while).Truncate(time.Second)
	}
	return at, nil
}

// orderOfForm reads a form. The roles are between commas, in one field or several.
func orderOfForm(ex *web.Exchange, c *change) (wanted *order, ends map[string]string, err error) {
	values, err := bodies.ReadForm(ex, `The form must have one field "username".`, "username")
	if err != nil {
		return nil, nil, err
	}
	wanted, ends = &order{username: values.Get("username")}, map[string]string{}
	if !c.roles {
		return wanted, nil, nil
	}
	for _, name := range endFields() {
		if len(values[name]) > 1 {
			return nil, nil, web.BadRequest(`Give "until" and "for" at most once.`, errTime)
		}
		if text := strings.TrimSpace(values.Get(name)); text != "" { // or a field that is left empty
			ends[name] = text
		}
	}
	if _, given := values["roles"]; !given && !c.add {
		return nil, nil, web.BadRequest(`The form must have the field "roles": roles with commas between them.`, nil)
	}
	wanted.roles = eachOnce(strings.Split(strings.Join(values["roles"], ","), ","))
	return wanted, ends, nil
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
