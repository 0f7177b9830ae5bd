package seckill

import "time"

// Role is what somebody may do at the operators' door. Each may do what those before it may.
type Role string

// The roles.
const (
	RoleViewer   Role = "viewer"   // Sees everything but accounts.
	RoleOperator Role = "operator" // Runs sales.
	RoleAdmin    Role = "admin"    // Says who may come in, and who is told.
)

// Roles lists them, the least first.
func Roles() []Role { return []Role{RoleViewer, RoleOperator, RoleAdmin} }

func (r Role) rank() int {
	for i, known := range Roles() {
		if r == known {
			return i + 1
		}
	}
	return 0
}

// Valid tells whether r is a role.
func (r Role) Valid() bool { return r.rank() > 0 }

// May tells whether r may do what takes a role. What is no role may nothing, and nobody may what takes one.
func (r Role) May(needed Role) bool { return needed.Valid() && r.rank() >= needed.rank() }

// TokenName is what the audit log calls whoever knows the admin token.
const TokenName = "admin-token"

// Account is somebody who may come in with a name and a password. The password is not here.
type Account struct {
	Name      string
	Role      Role
	Disabled  bool
	CreatedAt time.Time
	ChangedAt time.Time
}

// AccountChange is what is to be changed of an account; nil stays as it is.
type AccountChange struct {
	Password *string // In clear where people say it, hashed where it is stored.
	Role     *Role
	Disabled *bool
}

// Session is somebody who has logged in.
type Session struct {
	Name   string // Of the account, or TokenName.
	Role   Role   // As it is now, not as it was at the login.
	CSRF   string // What a page has to know to change something.
	SeenAt time.Time
	EndsAt time.Time
}
