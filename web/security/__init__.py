"""Before the application: who asks, from where, how often; and what every answer says to a browser."""
