"""A secured cluster: users whose rights and passwords change, and everybody who tries what is forbidden."""
